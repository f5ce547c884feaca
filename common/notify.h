/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

struct cr_err;

/*
 * Tells the service manager how it goes (sd_notify(3)): one datagram to the
 * socket that it names in NOTIFY_SOCKET. Without one everything here does
 * nothing.
 */
struct cr_notify {
    int fd;              /* connected; -1: nobody wants to know */
    int64_t watchdog_ns; /* how often the manager wants to hear "WATCHDOG=1", halved; 0: never */
};

#define CR_NOTIFY_INIT                                                                             \
    {                                                                                              \
        .fd = -1                                                                                   \
    }

/*
 * Reads NOTIFY_SOCKET (a path, or '@' and an abstract name), WATCHDOG_USEC and
 * WATCHDOG_PID. Before privileges are dropped and the environment is wiped: a
 * confined process may send, but not connect. Returns 0 or -errno.
 */
int cr_notify_open(struct cr_notify *notify, struct cr_err *err);

/* "READY=1", "STATUS=serving", "WATCHDOG=1". Does not wait; any thread. */
void cr_notify_send(const struct cr_notify *notify, const char *text);

/* Settings are read anew; "READY=1" says that they are. */
void cr_notify_reloading(const struct cr_notify *notify);

/* It goes, which takes `at_most_ms` at worst, whatever the manager's own deadline is. `status` is
 * shown to people. */
void cr_notify_stopping(const struct cr_notify *notify, const char *status, int64_t at_most_ms);

/* Safe to repeat. */
void cr_notify_close(struct cr_notify *notify);
