/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "tests/unit/rpc/guard_bench.h"

#include <string.h>

#include <sys/socket.h>

static void guard_shows_a_connection_only_once_it_speaks_http2(void **state)
{
    struct guard_bench bench;
    char bytes[64];

    (void)state;
    guard_set_up(&bench);
    for (size_t i = 0; i + 1 < GUARD_OPENING_SIZE; i++) {
        guard_send(&bench, &GUARD_OPENING[i], 1);
        assert_int_equal(bench.server, -1);
    }

    guard_send(&bench, &GUARD_OPENING[GUARD_OPENING_SIZE - 1], 1);

    assert_int_equal(bench.uid_seen, 77);
    assert_int_equal(recv(bench.server, bytes, sizeof(bytes), 0), GUARD_OPENING_SIZE);
    assert_memory_equal(bytes, GUARD_OPENING, GUARD_OPENING_SIZE);
    guard_tear_down(&bench);
}

static void guard_relays_both_ways(void **state)
{
    struct guard_bench bench;
    char bytes[64];

    (void)state;
    guard_set_up(&bench);
    guard_open(&bench);

    guard_send(&bench, GUARD_HEADERS, 10);
    assert_int_equal(recv(bench.server, bytes, sizeof(bytes), 0), 10);
    assert_int_equal(send(bench.server, GUARD_HEADERS, 10, 0), 10);
    guard_turn(&bench);
    assert_int_equal(recv(bench.client, bytes, sizeof(bytes), 0), 10);

    assert_int_equal(bench.deaths, 0);
    guard_tear_down(&bench);
}

/* Nothing of a chunk with a fault in it may reach the server. */
static void guard_closes_both_sides_on_a_fault(void **state)
{
    struct guard_bench bench;
    char bytes[64];

    (void)state;
    guard_set_up(&bench);
    guard_open(&bench);

    guard_send(&bench, "\0\0\7\6\0\0\0\0\0xxxxxxx", 16);

    assert_int_equal(bench.deaths, 1);
    assert_string_equal(bench.reason, "frame of a wrong length");
    assert_int_equal(recv(bench.server, bytes, sizeof(bytes), 0), 0);
    assert_true(recv(bench.client, bytes, sizeof(bytes), 0) <= 0);
    guard_tear_down(&bench);
}

static void guard_closes_what_is_not_http2(void **state)
{
    struct guard_bench bench;

    (void)state;
    guard_set_up(&bench);

    guard_send(&bench, "GET / HTTP/1.1\r\n", 16);

    assert_int_equal(bench.deaths, 1);
    assert_string_equal(bench.reason, "not HTTP/2");
    assert_int_equal(bench.server, -1);
    guard_tear_down(&bench);
}

static void guard_closes_when_the_server_takes_nobody(void **state)
{
    struct guard_bench bench;

    (void)state;
    guard_set_up(&bench);
    bench.is_refusing = true;

    guard_send(&bench, GUARD_OPENING, GUARD_OPENING_SIZE);

    assert_int_equal(bench.deaths, 1);
    assert_null(bench.reason);
    guard_tear_down(&bench);
}

static void guard_ends_with_the_client(void **state)
{
    struct guard_bench bench;
    char byte;

    (void)state;
    guard_set_up(&bench);
    guard_open(&bench);

    cr_close_fd(&bench.client);
    guard_turn(&bench);

    assert_int_equal(bench.deaths, 1);
    assert_null(bench.reason);
    assert_int_equal(recv(bench.server, &byte, 1, 0), 0);
    guard_tear_down(&bench);
}

/* ---- the last words of the server ---- */

/* What the server wrote before it closed must arrive, and the client may finish its own. */
static void guard_delivers_the_last_words_of_the_server(void **state)
{
    struct guard_bench bench;
    char bytes[64];

    (void)state;
    guard_set_up(&bench);
    guard_open(&bench);
    assert_int_equal(send(bench.server, GUARD_HEADERS, 10, 0), 10);
    cr_close_fd(&bench.server);
    guard_turn(&bench);

    assert_int_equal(recv(bench.client, bytes, sizeof(bytes), 0), 10);
    assert_int_equal(recv(bench.client, bytes, sizeof(bytes), 0), 0);
    assert_int_equal(bench.deaths, 0);
    guard_send(&bench, "\0\0\1\1\4\0\0\0\3x", 10);
    assert_int_equal(bench.deaths, 0);

    guard_pass(&bench, CR_NS_PER_S);
    assert_int_equal(bench.deaths, 1);
    assert_null(bench.reason);
    guard_tear_down(&bench);
}

/* The client spoke before the guard had read them: it is told all the same. */
static void guard_delivers_the_last_words_to_a_client_that_speaks(void **state)
{
    struct guard_bench bench;
    char bytes[64];

    (void)state;
    guard_set_up(&bench);
    guard_open(&bench);
    assert_int_equal(send(bench.client, GUARD_HEADERS, 10, 0), 10); /* epoll tells of it first */
    assert_int_equal(send(bench.server, GUARD_HEADERS, 10, 0), 10);
    cr_close_fd(&bench.server);
    guard_turn(&bench);

    assert_int_equal(bench.deaths, 0);
    assert_int_equal(recv(bench.client, bytes, sizeof(bytes), 0), 10);
    assert_int_equal(recv(bench.client, bytes, sizeof(bytes), 0), 0);
    guard_tear_down(&bench);
}

/* The server has gone, and the client reads slowly what it left. */
static void guard_waits_for_a_slow_client_to_take_the_last_words(void **state)
{
    struct guard_bench bench;
    char bytes[65536];
    size_t sent;
    size_t got = 0;

    (void)state;
    guard_set_up(&bench);
    guard_open(&bench);
    sent = guard_fill(&bench, bench.server);
    cr_close_fd(&bench.server);
    bench.host.has_timed = false;
    guard_send(&bench, GUARD_HEADERS, 10);
    guard_send(&bench, "\0\0\1\1\4\0\0\0\3x", 10);
    assert_true(bench.host.has_timed);

    while (got < sent) {
        ssize_t size;

        guard_pass(&bench, CR_NS_PER_S);
        size = recv(bench.client, bytes, sizeof(bytes), 0);
        assert_true(size > 0);
        got += (size_t)size;
        guard_turn(&bench);
    }
    assert_int_equal(bench.deaths, 0);
    guard_pass(&bench, CR_NS_PER_S);
    assert_int_equal(bench.deaths, 1);
    guard_tear_down(&bench);
}

/* Such a client that takes nothing at all is given up as any other. */
static void guard_gives_up_a_client_that_leaves_the_last_words(void **state)
{
    struct guard_bench bench;

    (void)state;
    guard_set_up(&bench);
    guard_open(&bench);
    (void)guard_fill(&bench, bench.server);
    cr_close_fd(&bench.server);
    guard_send(&bench, GUARD_HEADERS, 10);
    guard_send(&bench, "\0\0\1\1\4\0\0\0\3x", 10);

    guard_pass(&bench, 59 * CR_NS_PER_S);
    assert_int_equal(bench.deaths, 0);
    guard_pass(&bench, CR_NS_PER_S);
    assert_int_equal(bench.deaths, 1);
    guard_tear_down(&bench);
}

/* The listener's end: the server writes no more, and the client reads slowly what it wrote. */
static void guard_finishes_when_the_client_has_everything(void **state)
{
    struct guard_bench bench;
    char bytes[4096];
    ssize_t size = 1;
    size_t sent = 0;
    size_t got = 0;

    (void)state;
    guard_set_up(&bench);
    guard_open(&bench);
    for (size_t more = 1; more > 0; sent += more) {
        more = guard_fill(&bench, bench.server);
        guard_turn(&bench);
    }
    while (size != 0) {
        (void)guard_step(&bench);
        rpc_guard_finish(bench.guard, bench.now_ns);
        size = recv(bench.client, bytes, sizeof(bytes), 0);
        assert_true(size >= 0);
        got += (size_t)size;
    }
    assert_int_equal(got, sent);
    assert_int_equal(bench.deaths, 0);
    guard_tear_down(&bench);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(guard_shows_a_connection_only_once_it_speaks_http2),
        cmocka_unit_test(guard_relays_both_ways),
        cmocka_unit_test(guard_closes_both_sides_on_a_fault),
        cmocka_unit_test(guard_closes_what_is_not_http2),
        cmocka_unit_test(guard_closes_when_the_server_takes_nobody),
        cmocka_unit_test(guard_ends_with_the_client),
        cmocka_unit_test(guard_delivers_the_last_words_of_the_server),
        cmocka_unit_test(guard_delivers_the_last_words_to_a_client_that_speaks),
        cmocka_unit_test(guard_waits_for_a_slow_client_to_take_the_last_words),
        cmocka_unit_test(guard_gives_up_a_client_that_leaves_the_last_words),
        cmocka_unit_test(guard_finishes_when_the_client_has_everything),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
