/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/wire/lifeline.h"

#include "common/auto.h"

#include <errno.h>
#include <string.h>

#include <sys/socket.h>

union fd_space {
    struct cmsghdr header; /* for its alignment */
    char bytes[CMSG_SPACE(sizeof(int))];
};

int sbx_lifeline_send(int socket_fd, enum sbx_lifeline_type type, uint32_t value, int fd)
{
    struct sbx_lifeline_msg msg = {.version = SBX_LIFELINE_VERSION, .type = type, .value = value};
    struct iovec part = {.iov_base = &msg, .iov_len = sizeof(msg)};
    struct msghdr packet = {.msg_iov = &part, .msg_iovlen = 1};
    union fd_space space = {0};

    if (fd >= 0) {
        packet.msg_control = space.bytes;
        packet.msg_controllen = sizeof(space.bytes);
        *CMSG_FIRSTHDR(&packet) = (struct cmsghdr){
            .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(int))};
        memcpy(CMSG_DATA(CMSG_FIRSTHDR(&packet)), &fd, sizeof(fd));
    }
    return sendmsg(socket_fd, &packet, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 ? -errno : 0;
}

/* The control space has room for one fd, so the kernel closes any further ones (MSG_CTRUNC). */
static int take_fd(struct msghdr *packet)
{
    struct cmsghdr *header = CMSG_FIRSTHDR(packet);
    int fd = -1;

    if (header && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS &&
        header->cmsg_len == CMSG_LEN(sizeof(int)))
        memcpy(&fd, CMSG_DATA(header), sizeof(fd));
    return fd;
}

int sbx_lifeline_receive(int socket_fd, struct sbx_lifeline_msg *ret_msg, int *ret_fd)
{
    struct sbx_lifeline_msg msg;
    struct iovec part = {.iov_base = &msg, .iov_len = sizeof(msg)};
    union fd_space space = {0};
    struct msghdr packet = {.msg_iov = &part,
                            .msg_iovlen = 1,
                            .msg_control = space.bytes,
                            .msg_controllen = sizeof(space.bytes)};
    ssize_t n = recvmsg(socket_fd, &packet, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    CR_AUTO_CLOSE int fd = -1;

    if (n < 0)
        return errno == ECONNRESET ? -EPIPE : -errno;
    if (n == 0)
        return -EPIPE;
    fd = take_fd(&packet);
    if ((size_t)n != sizeof(msg) || (packet.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) ||
        msg.version != SBX_LIFELINE_VERSION || msg.reserved != 0)
        return -EPROTO;
    *ret_msg = msg;
    *ret_fd = cr_take_fd(&fd);
    return 0;
}
