/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/wire/fds.h"

#include "common/unconst.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include <sys/socket.h>

union control {
    struct cmsghdr header;
    char data[CMSG_SPACE(SBX_FDS_MAX * sizeof(int))];
};

int sbx_fds_send(int socket_fd, const void *data, size_t size, const int *fds, size_t count)
{
    union control control = {0};
    struct iovec iov = {.iov_base = cr_unconst(data), .iov_len = size};
    struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1};
    ssize_t sent;

    if (count > SBX_FDS_MAX)
        return -EINVAL;
    if (count > 0) {
        message.msg_control = control.data;
        message.msg_controllen = CMSG_SPACE(count * sizeof(int));
        control.header.cmsg_level = SOL_SOCKET;
        control.header.cmsg_type = SCM_RIGHTS;
        control.header.cmsg_len = CMSG_LEN(count * sizeof(int));
        memcpy(CMSG_DATA(&control.header), fds, count * sizeof(int));
    }
    do {
        sent = sendmsg(socket_fd, &message, MSG_NOSIGNAL);
    } while (sent < 0 && errno == EINTR);
    if (sent >= 0)
        return (size_t)sent == size ? 0 : -EPROTO;
    return errno == ECONNRESET ? -EPIPE : -errno;
}

/* Fds of every block into `fds`, which has room for SBX_FDS_MAX; returns their number. */
static size_t take_fds(struct msghdr *message, int *fds)
{
    size_t taken = 0;

    for (struct cmsghdr *block = CMSG_FIRSTHDR(message); block;
         block = CMSG_NXTHDR(message, block)) {
        size_t count;

        if (block->cmsg_level != SOL_SOCKET || block->cmsg_type != SCM_RIGHTS)
            continue;
        count = (block->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        if (count > SBX_FDS_MAX - taken)
            count = SBX_FDS_MAX - taken; /* cannot be: the buffer has no room for more */
        memcpy(fds + taken, CMSG_DATA(block), count * sizeof(int));
        taken += count;
    }
    return taken;
}

int sbx_fds_receive(int socket_fd, void *ret_data, size_t size, int *ret_fds, size_t count,
                    int flags)
{
    union control control = {0};
    struct iovec iov = {.iov_base = ret_data, .iov_len = size};
    struct msghdr message = {.msg_iov = &iov,
                             .msg_iovlen = 1,
                             .msg_control = control.data,
                             .msg_controllen = sizeof(control.data)};
    int fds[SBX_FDS_MAX];
    size_t taken;
    ssize_t got;

    do {
        got = recvmsg(socket_fd, &message, flags | MSG_CMSG_CLOEXEC);
    } while (got < 0 && errno == EINTR);
    if (got < 0)
        return errno == ECONNRESET ? -EPIPE : -errno;
    taken = take_fds(&message, fds);
    if ((size_t)got == size && taken <= count &&
        (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) == 0) {
        if (taken > 0)
            memcpy(ret_fds, fds, taken * sizeof(int));
        return (int)taken;
    }
    for (size_t i = 0; i < taken; i++)
        (void)close(fds[i]);
    return got == 0 ? -EPIPE : -EPROTO;
}
