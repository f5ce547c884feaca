/* SPDX-License-Identifier: Apache-2.0 */
#include "common/notify.h"

#include "common/auto.h"
#include "common/clock.h"
#include "common/err.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <sys/socket.h>
#include <sys/un.h>

#define NS_PER_US 1000
#define US_PER_MS 1000

/* A number of digits alone; 0 for anything else. */
static uint64_t read_number(const char *name)
{
    const char *text = secure_getenv(name);
    uint64_t value;
    char *end;

    if (!text || *text < '0' || *text > '9')
        return 0;
    errno = 0;
    value = strtoull(text, &end, 10);
    return errno == 0 && *end == '\0' ? value : 0;
}

/* The manager may mean another process of the same service. */
static int64_t watchdog_ns(void)
{
    uint64_t period_us = read_number("WATCHDOG_USEC");
    uint64_t pid = read_number("WATCHDOG_PID");

    if (period_us == 0 || period_us > INT64_MAX / NS_PER_US ||
        (pid != 0 && pid != (uint64_t)getpid()))
        return 0;
    return (int64_t)period_us * NS_PER_US / 2;
}

int cr_notify_open(struct cr_notify *notify, struct cr_err *err)
{
    const char *name = secure_getenv("NOTIFY_SOCKET");
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    CR_AUTO_CLOSE int fd = -1;
    size_t size;

    *notify = (struct cr_notify)CR_NOTIFY_INIT;
    if (!name || !*name)
        return 0;
    size = strlen(name);
    if ((name[0] != '/' && name[0] != '@') || size >= sizeof(address.sun_path))
        return cr_err_set(err, EINVAL, "NOTIFY_SOCKET is neither a path nor an abstract name");
    memcpy(address.sun_path, name, size);
    if (name[0] == '@')
        address.sun_path[0] = '\0';
    fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || connect(fd, (const struct sockaddr *)&address,
                          (socklen_t)(offsetof(struct sockaddr_un, sun_path) + size)) < 0)
        return cr_err_sys(err, errno, "connect to NOTIFY_SOCKET");
    notify->fd = cr_take_fd(&fd);
    notify->watchdog_ns = watchdog_ns();
    return 0;
}

void cr_notify_send(const struct cr_notify *notify, const char *text)
{
    if (notify->fd >= 0)
        (void)send(notify->fd, text, strlen(text), MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* With the time, since the manager must not take it for the answer to an earlier word of its own.
 */
void cr_notify_reloading(const struct cr_notify *notify)
{
    char text[64];

    (void)snprintf(text, sizeof(text), "RELOADING=1\nMONOTONIC_USEC=%" PRId64,
                   cr_clock_mono_ns() / NS_PER_US);
    cr_notify_send(notify, text);
}

void cr_notify_stopping(const struct cr_notify *notify, const char *status, int64_t at_most_ms)
{
    char text[256];

    (void)snprintf(text, sizeof(text), "STOPPING=1\nEXTEND_TIMEOUT_USEC=%" PRId64 "\nSTATUS=%s",
                   at_most_ms * US_PER_MS, status);
    cr_notify_send(notify, text);
}

void cr_notify_close(struct cr_notify *notify)
{
    cr_close_fd(&notify->fd);
}
