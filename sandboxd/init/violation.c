/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/init/violation.h"

#include "sandboxd/wire/boxctl.h"

#include <errno.h>

#include <linux/audit.h>
#include <linux/seccomp.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>

#if defined(__x86_64__)
#define ARCHITECTURE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCHITECTURE AUDIT_ARCH_AARCH64
#else
#error "no system call policy for this architecture"
#endif

#define X32_BIT 0x40000000
#define ROOM 512 /* a later kernel may say more than our header knows; it wants zeros */

/* What is looked at are numbers in registers: nobody can change them meanwhile. */
static void let_go_on(int listener_fd, uint64_t id)
{
    struct seccomp_notif_resp answer = {.id = id, .flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE};

    int r;

    do {
        r = ioctl(listener_fd, SECCOMP_IOCTL_NOTIF_SEND, &answer);
    } while (r < 0 && errno == EINTR); /* ENOENT: it is gone */
}

uint32_t sbx_violation_read(int listener_fd, bool *ret_is_socket)
{
    union {
        struct seccomp_notif notification;
        char room[ROOM];
    } buffer = {.room = {0}};
    const struct seccomp_data *data = &buffer.notification.data;
    int r;

    *ret_is_socket = false;
    do {
        r = ioctl(listener_fd, SECCOMP_IOCTL_NOTIF_RECV, &buffer);
    } while (r < 0 && errno == EINTR);
    if (r < 0)
        return SBX_CALL_UNKNOWN; /* ENOENT: a signal took it out of the call again */
    if (data->arch != ARCHITECTURE || (data->nr & X32_BIT) != 0)
        return SBX_CALL_OTHER_DOOR;
    *ret_is_socket = data->nr == __NR_socket || data->nr == __NR_socketpair;
    if (*ret_is_socket)
        let_go_on(listener_fd, buffer.notification.id);
    return (uint32_t)data->nr;
}
