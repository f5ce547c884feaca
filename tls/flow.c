/* SPDX-License-Identifier: Apache-2.0 */
#include "tls/flow.h"

#include "tls/stream.h"

#include <errno.h>

#include <sys/socket.h>

void tls_flow_init(struct tls_flow *flow)
{
    flow->at = flow->size = flow->unchecked = 0;
    flow->stuck_ns = 0;
}

/* Returns what the last send said: false when the receiver is gone. */
static bool send_all(struct tls_flow *flow, int fd, struct tls_stream *tls)
{
    while (flow->size > 0) {
        const uint8_t *data = flow->data + flow->at;
        ssize_t sent = tls ? tls_stream_write(tls, data, flow->size)
                           : send(fd, data, flow->size, MSG_NOSIGNAL | MSG_DONTWAIT);

        if (sent < 0)
            return errno == EAGAIN || errno == EINTR;
        flow->at += (size_t)sent;
        flow->size -= (size_t)sent;
    }
    if (flow->unchecked == 0)
        flow->at = 0;
    return true;
}

bool tls_flow_send(struct tls_flow *flow, int fd, struct tls_stream *tls, int64_t now_ns)
{
    const size_t before = flow->size;
    const bool is_there = send_all(flow, fd, tls);

    if (flow->size == 0)
        flow->stuck_ns = 0;
    else if (flow->size < before || flow->stuck_ns == 0)
        flow->stuck_ns = now_ns;
    return is_there;
}

bool tls_flow_is_stuck(const struct tls_flow *flow, int64_t now_ns, int64_t patience_ns)
{
    return flow->stuck_ns != 0 && now_ns - flow->stuck_ns >= patience_ns;
}

enum tls_received tls_flow_receive(struct tls_flow *flow, int fd, struct tls_stream *tls)
{
    size_t used = flow->at + flow->size + flow->unchecked;
    size_t room = sizeof(flow->data) - used;
    ssize_t size = tls ? tls_stream_read(tls, flow->data + used, room)
                       : recv(fd, flow->data + used, room, MSG_DONTWAIT);

    if (size < 0)
        return errno == EAGAIN || errno == EINTR ? TLS_RECEIVED_NOTHING : TLS_RECEIVED_CUT;
    if (size == 0)
        return TLS_RECEIVED_END;
    flow->unchecked += (size_t)size;
    return TLS_RECEIVED_SOME;
}
