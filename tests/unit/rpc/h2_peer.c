/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/rpc/h2_peer.h"

#include "common/auto.h"
#include "tests/harness/test.h"

#include <stdlib.h>

#define STREAMS_MAX 10U

static void add_frame(struct cr_buf *buf, const struct frames *frames, uint32_t index)
{
    uint32_t stream = frames->stream + index * frames->step;
    const uint8_t header[9] = {(uint8_t)(frames->size >> 16),
                               (uint8_t)(frames->size >> 8),
                               (uint8_t)frames->size,
                               frames->type,
                               frames->flags,
                               (uint8_t)(stream >> 24),
                               (uint8_t)(stream >> 16),
                               (uint8_t)(stream >> 8),
                               (uint8_t)stream};

    assert_int_equal(cr_buf_add(buf, header, sizeof(header)), 0);
    for (uint32_t i = 0; i < frames->size; i++)
        assert_int_equal(cr_buf_add_char(buf, 'x'), 0);
}

void frames_add(struct cr_buf *buf, const struct frames *frames)
{
    for (uint32_t i = 0; i < (frames->count ? frames->count : 1); i++)
        add_frame(buf, frames, i);
}

void frames_begin(struct cr_buf *buf)
{
    const struct frames settings = {.type = SETTINGS};

    cr_buf_init(buf, (size_t)16 << 20);
    assert_int_equal(cr_buf_add_str(buf, PREFACE), 0);
    frames_add(buf, &settings);
}

const struct cr_edge *h2_edge(void)
{
    static struct cr_edge edge;

    cr_edge_defaults(&edge);
    edge.max_streams = STREAMS_MAX;
    return &edge;
}

struct rpc_h2 *h2_new(struct rpc_h2_budget *peer)
{
    struct rpc_h2 *h2 = malloc(sizeof(*h2));

    assert_non_null(h2);
    rpc_h2_init(h2, h2_edge(), peer);
    return h2;
}

enum rpc_h2_fault h2_feed(struct rpc_h2 *h2, const void *data, size_t size, int64_t now_ns)
{
    const uint8_t *at = data;
    enum rpc_h2_fault fault = RPC_H2_OK;

    while (size > 0 && fault == RPC_H2_OK) {
        size_t used = 0;

        fault = rpc_h2_feed_client(h2, at, size, 16, now_ns, &used);
        assert_true(fault != RPC_H2_OK || used > 0);
        at += used;
        size -= used;
    }
    return fault;
}

enum rpc_h2_fault h2_from_client(struct rpc_h2 *h2, const struct frames *frames, int64_t now_ns)
{
    CR_AUTO_BUF struct cr_buf buf = {0};

    cr_buf_init(&buf, (size_t)1 << 20);
    frames_add(&buf, frames);
    return h2_feed(h2, buf.data, buf.size, now_ns);
}

void h2_from_server(struct rpc_h2 *h2, const struct frames *frames)
{
    CR_AUTO_BUF struct cr_buf buf = {0};

    cr_buf_init(&buf, (size_t)1 << 20);
    frames_add(&buf, frames);
    /* In two cuts, so that this direction is put together again, too. */
    rpc_h2_feed_server(h2, buf.data, 5);
    rpc_h2_feed_server(h2, buf.data + 5, buf.size - 5);
}

struct rpc_h2 *h2_new_open(struct rpc_h2_budget *peer)
{
    CR_AUTO_BUF struct cr_buf buf = {0};
    struct rpc_h2 *h2 = h2_new(peer);

    frames_begin(&buf);
    assert_int_equal(h2_feed(h2, buf.data, buf.size, 1), RPC_H2_OK);
    return h2;
}
