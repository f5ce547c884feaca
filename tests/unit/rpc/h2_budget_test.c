/* SPDX-License-Identifier: Apache-2.0 */

/* What is counted of a client over its streams, and against what the server sent. */
#include "common/auto.h"
#include "common/buf.h"
#include "common/clock.h"
#include "rpc/h2_frames.h"
#include "tests/harness/test.h"
#include "tests/unit/rpc/h2_peer.h"

/* Opens, has it answered when asked to, and resets, one stream after the other. */
static uint32_t resets_until_fault(bool is_answered, uint32_t count)
{
    struct rpc_h2_budget peer = {0};
    CR_AUTO_FREE struct rpc_h2 *h2 = h2_new_open(&peer);

    for (uint32_t i = 0; i < count; i++) {
        uint32_t stream = 2 * i + 1;

        if (h2_from_client(h2, &(struct frames){HEADERS, END_HEADERS, stream, 1, 0, 0}, 1))
            return i;
        if (is_answered)
            h2_from_server(h2, &(struct frames){HEADERS, END_HEADERS, stream, 1, 0, 0});
        if (h2_from_client(h2, &(struct frames){RESET, NONE, stream, 4, 0, 0}, 1))
            return i;
    }
    return count;
}

static void h2_frames_count_only_resets_before_our_answer(void **state)
{
    (void)state;
    assert_int_equal(resets_until_fault(false, 10000), 320);
    assert_int_equal(resets_until_fault(true, 10000), 10000);
}

/* Only those that core has not begun to answer hold it up. */
static void h2_frames_stop_after_so_many_costly_frames(void **state)
{
    const struct frames open_all = {HEADERS, END_HEADERS, 1, 1, 60, 2};
    const struct frames reset_all = {RESET, NONE, 1, 4, 60, 2};
    struct rpc_h2_budget peer = {0};
    CR_AUTO_FREE struct rpc_h2 *h2 = h2_new_open(&peer);
    CR_AUTO_BUF struct cr_buf buf = {0};
    size_t used = 0;

    (void)state;
    cr_buf_init(&buf, 65536);
    frames_add(&buf, &reset_all);
    assert_int_equal(h2_from_client(h2, &open_all, 1), RPC_H2_OK);
    for (uint32_t stream = 1; stream < 2 * 20; stream += 2)
        h2_from_server(h2, &(struct frames){HEADERS, END_HEADERS, stream, 1, 0, 0});

    assert_int_equal(rpc_h2_feed_client(h2, buf.data, buf.size, 16, 1, &used), RPC_H2_OK);
    assert_int_equal(h2->costly, 16);
    /* The payload of the last one is still to come. */
    assert_int_equal(used, (20 + 16) * 13 - 4);
    assert_int_equal(rpc_h2_feed_client(h2, buf.data + used, buf.size - used, 1, 1, &used),
                     RPC_H2_OK);
    assert_int_equal(h2->costly, 1);
    assert_int_equal(used, 13);
}

static void h2_frames_bear_a_reset_that_crosses_our_end(void **state)
{
    struct rpc_h2_budget peer = {0};
    CR_AUTO_FREE struct rpc_h2 *h2 = h2_new_open(&peer);

    (void)state;
    for (uint32_t stream = 1; stream < 2000; stream += 2) {
        assert_int_equal(
            h2_from_client(h2, &(struct frames){HEADERS, END_HEADERS, stream, 1, 0, 0}, 1),
            RPC_H2_OK);
        h2_from_server(h2, &(struct frames){HEADERS, END_HEADERS | END_STREAM, stream, 1, 0, 0});
        assert_int_equal(h2_from_client(h2, &(struct frames){RESET, NONE, stream, 4, 0, 0}, 1),
                         RPC_H2_OK);
    }
    assert_int_equal(h2->stream_count, 0);
}

static void h2_frames_forget_streams_that_the_server_ended(void **state)
{
    static const struct frames ENDS[] = {{HEADERS, END_HEADERS | END_STREAM, 0, 1, 0, 0},
                                         {DATA, END_STREAM, 0, 1, 0, 0},
                                         {RESET, NONE, 0, 4, 0, 0}};
    struct rpc_h2_budget peer = {0};
    CR_AUTO_FREE struct rpc_h2 *h2 = h2_new_open(&peer);

    (void)state;
    for (uint32_t i = 0; i < 1000; i++) {
        struct frames end = ENDS[i % CR_ARRAY_SIZE(ENDS)];

        end.stream = 2 * i + 1;
        assert_int_equal(
            h2_from_client(h2, &(struct frames){HEADERS, END_HEADERS, end.stream, 1, 0, 0}, 1),
            RPC_H2_OK);
        h2_from_server(h2, &end);
    }
    assert_int_equal(h2->stream_count, 0);
}

/* What the server asked for is not held against the client. */
static void h2_frames_give_credit_for_what_we_sent(void **state)
{
    struct rpc_h2_budget peer = {0};
    CR_AUTO_FREE struct rpc_h2 *h2 = h2_new_open(&peer);

    (void)state;
    h2_from_server(h2, &(struct frames){PING, NONE, 0, 8, 1000, 0});
    assert_int_equal(h2_from_client(h2, &(struct frames){PING, ACK, 0, 8, 1000, 0}, 1), RPC_H2_OK);
    h2_from_server(h2, &(struct frames){SETTINGS, NONE, 0, 0, 1000, 0});
    assert_int_equal(h2_from_client(h2, &(struct frames){SETTINGS, ACK, 0, 0, 1000, 0}, 1),
                     RPC_H2_OK);
    h2_from_server(h2, &(struct frames){DATA, NONE, 1, 1, 10000, 0});
    assert_int_equal(h2_from_client(h2, &(struct frames){WINDOW, NONE, 0, 4, 20000, 0}, 1),
                     RPC_H2_OK);
    /* grpc-go probes the bandwidth as it reads: a stream of small messages brings many PINGs. */
    assert_int_equal(h2_from_client(h2, &(struct frames){PING, NONE, 0, 8, 10000, 0}, 1),
                     RPC_H2_OK);
    assert_int_equal(h2_from_client(h2, &(struct frames){PING, NONE, 0, 8, 101, 0}, 1),
                     FLOOD(PING));
}

static void h2_frames_refill_with_time(void **state)
{
    struct rpc_h2_budget peer = {0};
    CR_AUTO_FREE struct rpc_h2 *h2 = h2_new_open(&peer);

    (void)state;
    assert_int_equal(h2_from_client(h2, &(struct frames){PING, NONE, 0, 8, 100, 0}, 1), RPC_H2_OK);
    /* 20 a second. */
    assert_int_equal(h2_from_client(h2, &(struct frames){PING, NONE, 0, 8, 20, 0}, 1 + CR_NS_PER_S),
                     RPC_H2_OK);
    assert_int_equal(h2_from_client(h2, &(struct frames){PING, NONE, 0, 8, 1, 0}, 1 + CR_NS_PER_S),
                     FLOOD(PING));
}

/* A peer that connects anew has new buckets per connection, but not per peer. */
static void h2_frames_hold_a_peer_over_all_its_connections(void **state)
{
    struct rpc_h2_budget peer = {0};
    enum rpc_h2_fault fault = RPC_H2_OK;
    uint32_t connections = 0;

    (void)state;
    for (; fault == RPC_H2_OK && connections < 100; connections++) {
        CR_AUTO_FREE struct rpc_h2 *h2 = h2_new_open(&peer);

        for (uint32_t stream = 1; stream < 200 && fault == RPC_H2_OK; stream += 2) {
            fault = h2_from_client(h2, &(struct frames){HEADERS, END_HEADERS, stream, 1, 0, 0}, 1);
            if (fault == RPC_H2_OK)
                fault = h2_from_client(h2, &(struct frames){RESET, NONE, stream, 4, 0, 0}, 1);
        }
    }
    assert_int_equal(fault, FLOOD(RESET));
    assert_int_equal(connections, 7); /* 640 resets, 100 each */
    assert_false(rpc_h2_budget_is_full(&peer, 1));
    assert_true(rpc_h2_budget_is_full(&peer, 1 + 4 * CR_NS_PER_S));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(h2_frames_count_only_resets_before_our_answer),
        cmocka_unit_test(h2_frames_stop_after_so_many_costly_frames),
        cmocka_unit_test(h2_frames_bear_a_reset_that_crosses_our_end),
        cmocka_unit_test(h2_frames_forget_streams_that_the_server_ended),
        cmocka_unit_test(h2_frames_give_credit_for_what_we_sent),
        cmocka_unit_test(h2_frames_refill_with_time),
        cmocka_unit_test(h2_frames_hold_a_peer_over_all_its_connections),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
