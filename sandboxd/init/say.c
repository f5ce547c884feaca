/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/init/say.h"

#include <errno.h>
#include <unistd.h>

#include <sys/socket.h>

int sbx_say(struct sbx_init_msg msg)
{
    ssize_t sent;

    do {
        sent = send(SBX_INIT_FD_CONTROL, &msg, sizeof(msg), MSG_NOSIGNAL);
    } while (sent < 0 && errno == EINTR);
    return sent == (ssize_t)sizeof(msg) ? 0 : -EPIPE;
}

_Noreturn void sbx_say_failed(enum sbx_stage stage, int error)
{
    (void)sbx_say(
        (struct sbx_init_msg){.event = SBX_INIT_FAILED, .stage = (uint32_t)stage, .error = -error});
    _exit(1);
}

/* The end of the connection means that the backend is gone. */
int sbx_say_await_go(void)
{
    struct sbx_init_msg msg;
    ssize_t size;

    do {
        size = recv(SBX_INIT_FD_CONTROL, &msg, sizeof(msg), 0);
    } while (size < 0 && errno == EINTR);
    return size == (ssize_t)sizeof(msg) && msg.event == SBX_INIT_GO ? 0 : -EPIPE;
}
