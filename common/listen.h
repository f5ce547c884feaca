/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

#include <sys/types.h>

struct cr_err;

/*
 * A listening socket and what it leaves in the file system. Embedded; the
 * process that opened it closes it (a process that only got the fd does not).
 */
struct cr_listen {
    int fd;         /* listening, CLOEXEC, non-blocking */
    int lock_fd;    /* unix sockets: holds the flock of "path.lock"; else -1 */
    uint16_t port;  /* TCP: the port; else 0 */
    char path[108]; /* unix sockets: the file; else "" */
};

#define CR_LISTEN_INIT                                                                             \
    {                                                                                              \
        .fd = -1, .lock_fd = -1                                                                    \
    }

/*
 * Opens an address:
 *   "unix:/path"  socket file of mode 0600 owned by `owner` ((uid_t)-1: leave it). Its folder is
 *                 made when missing (0700, same owner); one that `owner` cannot enter is given to
 *                 him when it is ours, no link and has nothing else in it, else it is -EACCES.
 *                 "path.lock" is locked first, so that a second server cannot steal the path of a
 *                 live one: -EADDRINUSE. A stale socket file is replaced; anything else at the
 *                 path is -EEXIST.
 *   "host:port"   TCP, numeric host or "localhost", "[::1]:port"; port 0 takes a free one.
 *                 -EADDRINUSE names the port and, where /proc tells, the process that holds it.
 * On failure nothing is left behind.
 */
int cr_listen_open(const char *address, uid_t owner, struct cr_listen *ret_listen,
                   struct cr_err *err);

/* Whether an address is well formed: pure, as cr_listen_open() would say it. */
int cr_listen_check(const char *address, struct cr_err *err);

/* Closes, and removes the socket file. Safe to repeat. */
void cr_listen_close(struct cr_listen *listen);
