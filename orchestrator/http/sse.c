/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/http/sse.h"

#include "common/buf.h"

#include <errno.h>
#include <string.h>

int agt_sse_add_preamble(struct cr_buf *buf)
{
    return cr_buf_add_str(buf, "retry: 2000\n\n");
}

static int add_frame(struct cr_buf *buf, uint64_t id, const char *event, const char *data)
{
    int r = 0;

    if (id > 0)
        r = cr_buf_printf(buf, "id: %llu\n", (unsigned long long)id);
    if (r >= 0)
        r = cr_buf_printf(buf, "event: %s\ndata: ", event);
    /* Not through printf: data may be large and is copied once only. */
    if (r >= 0)
        r = cr_buf_add_str(buf, data);
    if (r >= 0)
        r = cr_buf_add(buf, "\n\n", 2);
    return r;
}

int agt_sse_add_event(struct cr_buf *buf, uint64_t id, const char *event, const char *data)
{
    size_t before = buf->size;
    int r;

    if (strpbrk(event, "\r\n") || strpbrk(data, "\r\n"))
        return -EINVAL;
    r = add_frame(buf, id, event, data);
    if (r < 0) {
        buf->size = before;
        if (buf->data)
            buf->data[before] = '\0';
    }
    return r < 0 ? r : 0;
}

int agt_sse_add_heartbeat(struct cr_buf *buf)
{
    return cr_buf_add_str(buf, ": heartbeat\n\n");
}
