/* SPDX-License-Identifier: Apache-2.0 */

/* Who goes on how fast: what is held back, who waits for a turn, and who has taken too long. */
#include "common/auto.h"
#include "tests/unit/rpc/guard_bench.h"

#include <string.h>

#include <sys/socket.h>

static void guard_holds_the_sender_back_and_loses_nothing(void **state)
{
    struct guard_bench bench;
    size_t sent;

    (void)state;
    guard_set_up(&bench);
    guard_open(&bench);
    guard_send(&bench, GUARD_HEADERS, 10);

    sent = guard_fill(&bench, bench.client);
    assert_true(sent < (size_t)4 << 20);
    assert_int_equal(guard_drain(&bench, bench.server), sent + 10);

    sent = guard_fill(&bench, bench.server);
    assert_true(sent < (size_t)4 << 20);
    assert_int_equal(guard_drain(&bench, bench.client), sent);
    assert_int_equal(bench.deaths, 0);
    guard_tear_down(&bench);
}

/* The server has ended it long ago, but is not looked at while its words wait for the client. */
static void guard_ends_who_takes_nothing(void **state)
{
    struct guard_bench bench;
    char bytes[65536];

    (void)state;
    guard_set_up(&bench);
    guard_open(&bench);
    guard_send(&bench, GUARD_HEADERS, 10);
    (void)guard_fill(&bench, bench.server);
    cr_close_fd(&bench.server);
    bench.host.has_timed = false;
    guard_turn(&bench);

    /* A slow one is no silent one. A socket has room when most of what it has is taken. */
    guard_pass(&bench, 59 * CR_NS_PER_S);
    assert_true(bench.host.has_timed);
    for (int piece = 0; piece < 3; piece++)
        assert_true(recv(bench.client, bytes, sizeof(bytes), 0) > 0);
    guard_turn(&bench);
    guard_pass(&bench, 59 * CR_NS_PER_S);
    assert_int_equal(bench.deaths, 0);
    guard_pass(&bench, CR_NS_PER_S);
    assert_int_equal(bench.deaths, 1);
    assert_string_equal(bench.reason ? bench.reason : "none", "takes nothing");
    guard_tear_down(&bench);
}

/* A frame that is held back by us is not the client's delay. */
static void guard_does_not_blame_a_client_for_a_slow_server(void **state)
{
    struct guard_bench bench;

    (void)state;
    guard_set_up(&bench);
    guard_open(&bench);
    guard_send(&bench, GUARD_HEADERS, 10);
    (void)guard_fill(&bench, bench.client);
    guard_turn(&bench);

    guard_pass(&bench, 1000 * CR_NS_PER_S);
    assert_int_equal(bench.deaths, 0);
    (void)guard_drain(&bench, bench.server);
    rpc_guard_check_time(bench.guard, bench.now_ns);
    assert_int_equal(bench.deaths, 0);
    guard_tear_down(&bench);
}

/* Two at once: the second waits for its turn, and loses nothing of what it has sent. */
static void guard_shows_connections_one_by_one(void **state)
{
    struct guard_bench bench;

    (void)state;
    guard_set_up(&bench);
    bench.host.resume_ns = INT64_MAX;
    bench.host.attach_ns = bench.now_ns + 1000; /* another one has just been shown */

    guard_send(&bench, GUARD_OPENING GUARD_HEADERS, GUARD_OPENING_SIZE + 10);
    assert_int_equal(bench.server, -1);
    assert_int_equal(bench.host.resume_ns, bench.now_ns + 1000);
    /* It is us who make it wait. */
    rpc_guard_check_time(bench.guard, bench.now_ns + 10 * CR_NS_PER_S);
    assert_int_equal(bench.deaths, 0);
    bench.now_ns += 1000;
    rpc_guard_resume(bench.guard, bench.now_ns);

    assert_true(bench.server >= 0);
    assert_int_equal(guard_drain(&bench, bench.server), GUARD_OPENING_SIZE + 10);
    assert_int_equal(bench.deaths, 0);
    guard_tear_down(&bench);
}

/* Hundreds that leave at once are ended one by one; their place is taken until then. */
static void guard_ends_connections_one_by_one(void **state)
{
    struct guard_bench bench;
    char byte;

    (void)state;
    guard_set_up(&bench);
    bench.host.resume_ns = INT64_MAX;
    guard_open(&bench);
    bench.host.leave_ns = bench.now_ns + 1000; /* another one has just left */

    cr_close_fd(&bench.client);
    guard_turn(&bench);
    assert_int_equal(bench.deaths, 0);
    assert_int_equal(recv(bench.server, &byte, 1, MSG_DONTWAIT), -1);
    assert_int_equal(bench.host.resume_ns, bench.now_ns + 1000);
    bench.now_ns += 1000;
    /* We are late, and others had their turn. */
    bench.host.pass_ns = bench.now_ns;
    bench.host.pass_count = 4;
    bench.host.resume_ns = INT64_MAX;
    rpc_guard_resume(bench.guard, bench.now_ns);
    assert_int_equal(bench.deaths, 0);
    bench.now_ns = bench.host.resume_ns;
    rpc_guard_resume(bench.guard, bench.now_ns);

    assert_int_equal(bench.deaths, 1);
    assert_null(bench.reason);
    assert_int_equal(recv(bench.server, &byte, 1, 0), 0);
    guard_tear_down(&bench);
}

/* One call that is given up before its answer. */
static size_t put_reset_call(char *to, uint8_t stream)
{
    const char frames[] = {0, 0, 1, 1, 4, 0, 0, 0, (char)stream, 'x', /* HEADERS */
                           0, 0, 4, 3, 0, 0, 0, 0, (char)stream, 0,   0, 0, 8};

    memcpy(to, frames, sizeof(frames));
    return sizeof(frames);
}

/* Sixteen at a time; between them, others are served. Nothing is lost, and nobody is closed. */
static void guard_paces_calls_that_are_given_up(void **state)
{
    struct guard_bench bench;
    char calls[40 * 23];
    size_t size = 0;
    size_t arrived;
    int turns = 1;

    (void)state;
    guard_set_up(&bench);
    bench.edge.max_streams = 100;
    bench.host.resume_ns = INT64_MAX;
    guard_open(&bench);
    for (uint8_t stream = 1; stream < 80; stream = (uint8_t)(stream + 2))
        size += put_reset_call(calls + size, stream);

    guard_send(&bench, calls, size);

    arrived = guard_drain(&bench, bench.server);
    assert_int_equal(arrived, 16 * 23 - 4);
    for (; bench.host.resume_ns != INT64_MAX; turns++) {
        /* Too early: it only says again when. */
        bench.now_ns = bench.host.resume_ns - 1;
        bench.host.resume_ns = INT64_MAX;
        rpc_guard_resume(bench.guard, bench.now_ns);
        assert_int_equal(guard_drain(&bench, bench.server), 0);
        bench.now_ns = bench.host.resume_ns;
        bench.host.resume_ns = INT64_MAX;
        rpc_guard_resume(bench.guard, bench.now_ns);
        guard_turn(&bench);
        arrived += guard_drain(&bench, bench.server);
    }
    assert_int_equal(arrived, size);
    assert_int_equal(turns, 3);
    assert_int_equal(bench.deaths, 0);
    /* And goes on as before. */
    guard_send(&bench, "\0\0\10\6\0\0\0\0\0xxxxxxxx", 17);
    assert_int_equal(guard_drain(&bench, bench.server), 17);
    guard_tear_down(&bench);
}

static const struct {
    const char *bytes;
    size_t size;
    bool is_open; /* preface and SETTINGS first */
    const char *reason;
} delays[] = {
    {"", 0, false, "slow to begin"},
    {"PRI * HTTP", 10, false, "slow to begin"},
    {"\0\0", 2, true, "slow frame"},
    {"\0\0\2\1\4\0\0\0\1x", 10, true, "slow frame"},
    {"\0\0\1\1\0\0\0\0\1x", 10, true, "slow frame"},
    {"\0\0\1\1\4\0\0\0\1x", 10, true, NULL}, /* a call that waits may wait */
    {"", 0, true, NULL},
};

static void guard_closes_who_begins_and_does_not_go_on(void **state)
{
    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(delays); i++) {
        struct guard_bench bench;

        guard_set_up(&bench);
        if (delays[i].is_open)
            guard_open(&bench);
        if (delays[i].size > 0)
            guard_send(&bench, delays[i].bytes, delays[i].size);

        guard_pass(&bench, 3 * CR_NS_PER_S - 1);
        assert_int_equal(bench.deaths, 0);
        bench.host.has_timed = false;
        guard_pass(&bench, 1);

        assert_int_equal(bench.deaths, delays[i].reason ? 1 : 0);
        if (delays[i].reason)
            assert_string_equal(bench.reason, delays[i].reason);
        /* An idle connection must not keep the thread awake. */
        assert_false(bench.host.has_timed);
        guard_tear_down(&bench);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(guard_holds_the_sender_back_and_loses_nothing),
        cmocka_unit_test(guard_ends_who_takes_nothing),
        cmocka_unit_test(guard_does_not_blame_a_client_for_a_slow_server),
        cmocka_unit_test(guard_shows_connections_one_by_one),
        cmocka_unit_test(guard_ends_connections_one_by_one),
        cmocka_unit_test(guard_paces_calls_that_are_given_up),
        cmocka_unit_test(guard_closes_who_begins_and_does_not_go_on),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
