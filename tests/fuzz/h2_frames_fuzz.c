/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/h2_frames.h"
#include "tests/fuzz/fuzz.h"

#include <string.h>

#define STREAM_LIMIT 8U

struct run {
    struct cr_edge edge;
    struct rpc_h2 h2;
    struct rpc_h2_budget peer;
};

static struct run *new_run(void)
{
    struct run *run = calloc(1, sizeof(*run));

    FUZZ_CHECK(run);
    cr_edge_defaults(&run->edge);
    run->edge.max_streams = STREAM_LIMIT;
    rpc_h2_init(&run->h2, &run->edge, &run->peer);
    return run;
}

/* In as many turns as it takes, with at most `costly` costly frames in each. */
static enum rpc_h2_fault feed_all(struct run *run, const uint8_t *data, size_t size,
                                  uint32_t costly)
{
    enum rpc_h2_fault fault = RPC_H2_OK;

    while (size > 0 && fault == RPC_H2_OK) {
        size_t used = 0;

        fault = rpc_h2_feed_client(&run->h2, data, size, costly, 1, &used);
        FUZZ_CHECK(run->h2.costly <= costly);
        FUZZ_CHECK(fault != RPC_H2_OK || (used > 0 && used <= size));
        FUZZ_CHECK(fault != RPC_H2_OK || used == size || run->h2.costly == costly);
        data += used;
        size -= used;
    }
    return fault;
}

/* In pieces of 1 to `piece` bytes, up to the first fault. */
static enum rpc_h2_fault feed(struct run *run, const uint8_t *data, size_t size, uint8_t piece)
{
    enum rpc_h2_fault fault = RPC_H2_OK;

    for (size_t at = 0; at < size && fault == RPC_H2_OK;) {
        size_t step = 1 + (piece * (at + 7)) % (piece + 1);

        if (step > size - at)
            step = size - at;
        fault = feed_all(run, data + at, step, 1 + piece % 3);
        at += step;
    }
    return fault;
}

/*
 * The first byte says how to cut, the second how much of the rest comes from
 * the server. However the bytes are cut, verdict and state are the same.
 */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct run *whole;
    struct run *cut;
    enum rpc_h2_fault fault;
    size_t from_server;

    if (size < 2)
        return 0;
    whole = new_run();
    cut = new_run();
    from_server = (size - 2) * data[1] / 256;
    fault = feed_all(whole, data + 2, size - 2 - from_server, UINT32_MAX);
    FUZZ_CHECK(feed(cut, data + 2, size - 2 - from_server, data[0]) == fault);
    rpc_h2_feed_server(&whole->h2, data + size - from_server, from_server);
    for (size_t i = size - from_server; i < size; i++)
        rpc_h2_feed_server(&cut->h2, data + i, 1);

    FUZZ_CHECK(whole->h2.stream_count <= STREAM_LIMIT + RPC_H2_STREAM_SLACK);
    for (uint32_t i = 1; i < whole->h2.stream_count; i++)
        FUZZ_CHECK(whole->h2.streams[i - 1].id < whole->h2.streams[i].id);
    FUZZ_CHECK(rpc_h2_deadline_ns(&whole->h2) > 0);
    whole->h2.peer = cut->h2.peer = NULL;
    whole->h2.edge = cut->h2.edge = NULL;
    whole->h2.costly = cut->h2.costly = 0;
    if (fault == RPC_H2_OK)
        FUZZ_CHECK(memcmp(whole, cut, sizeof(*whole)) == 0);
    FUZZ_CHECK(rpc_h2_fault_name(fault)[0] != '\0');
    free(whole);
    free(cut);
    return 0;
}
