/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/init/stream_out.h"

#include "common/auto.h"

#include <errno.h>
#include <signal.h>
#include <unistd.h>

#include <sys/uio.h>

_Noreturn void sbx_stream_die(void)
{
    (void)kill(-1, SIGKILL);
    _exit(1);
}

void sbx_stream_send(enum sbx_stream_kind kind, void *data, size_t size)
{
    struct sbx_stream_header header = {.kind = (uint32_t)kind, .size = (uint32_t)size};
    struct iovec parts[] = {{&header, sizeof(header)}, {data, size}};
    size_t at = 0;

    while (at < CR_ARRAY_SIZE(parts)) {
        ssize_t n = writev(STDOUT_FILENO, parts + at, (int)(CR_ARRAY_SIZE(parts) - at));

        if (n < 0 && errno != EINTR)
            sbx_stream_die();
        for (; n >= 0 && at < CR_ARRAY_SIZE(parts); at++) {
            size_t part = parts[at].iov_len;

            if ((size_t)n < part) {
                parts[at].iov_base = (uint8_t *)parts[at].iov_base + n;
                parts[at].iov_len = part - (size_t)n;
                break;
            }
            n -= (ssize_t)part;
        }
    }
}

void sbx_stream_send_event(struct sbx_init_msg msg)
{
    sbx_stream_send(SBX_STREAM_EVENT, &msg, sizeof(msg));
}
