/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/clock.h"
#include "rpc/guard.h"
#include "rpc/h2_frames.h"
#include "rpc/watch.h"
#include "tests/harness/test.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sys/epoll.h>
#include <sys/socket.h>

#define OPENING "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0"
#define OPENING_SIZE (sizeof(OPENING) - 1)
#define HEADERS_1 "\0\0\1\1\4\0\0\0\1x"
#define TURNS 64

/* A guard between two sockets of the test, and a clock of its own. */
struct bench {
    struct cr_edge edge;
    struct rpc_guard_host host;
    struct rpc_h2_budget budget;
    struct rpc_guard *guard;
    int client; /* the test plays the client here */
    int server; /* and the server here; -1 until attached */
    bool is_refusing;
    int64_t now_ns;
    int deaths;
    const char *reason;
    uint32_t uid_seen;
    int fds_before;
};

static int attach(void *user, int fd, const struct rpc_peer *peer, struct cr_err *err)
{
    struct bench *bench = user;

    (void)err;
    if (bench->is_refusing)
        return -ESHUTDOWN;
    bench->server = fd;
    bench->uid_seen = peer->uid;
    return 0;
}

static void on_dead(void *user, struct rpc_guard *guard, const char *reason)
{
    struct bench *bench = user;

    assert_ptr_equal(guard, bench->guard);
    bench->deaths++;
    bench->reason = reason;
}

static void set_up(struct bench *bench)
{
    const struct rpc_peer peer = {.is_unix = true, .uid = 77};
    int pair[2];

    memset(bench, 0, sizeof(*bench));
    bench->fds_before = test_count_fds();
    bench->server = -1;
    bench->now_ns = CR_NS_PER_S;
    cr_edge_defaults(&bench->edge);
    bench->edge.max_streams = 10;
    bench->host = (struct rpc_guard_host){.epoll_fd = epoll_create1(EPOLL_CLOEXEC),
                                          .edge = &bench->edge,
                                          .attach = attach,
                                          .on_dead = on_dead,
                                          .user = bench};
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
    bench->client = pair[0];
    assert_int_equal(rpc_guard_new(&bench->host, pair[1], &peer, &bench->budget, bench->now_ns,
                                   &bench->guard, NULL),
                     0);
}

static void tear_down(struct bench *bench)
{
    (void)rpc_guard_free(bench->guard);
    cr_close_fd(&bench->client);
    cr_close_fd(&bench->server);
    cr_close_fd(&bench->host.epoll_fd);
    assert_int_equal(test_count_fds(), bench->fds_before);
}

/* One thing that is ready; false when nothing is. */
static bool step(struct bench *bench)
{
    struct epoll_event event;

    if (epoll_wait(bench->host.epoll_fd, &event, 1, 0) <= 0)
        return false;
    ((struct rpc_watch *)event.data.ptr)->on_ready(event.data.ptr, event.events, bench->now_ns);
    return true;
}

/* Lets the guard do all that it can do now. A guard that spins would fail here. */
static void turn(struct bench *bench)
{
    for (int i = 0; i < TURNS; i++) {
        if (!step(bench))
            return;
    }
    fail_msg("the guard spins");
}

static void send_bytes(struct bench *bench, const void *bytes, size_t size)
{
    assert_int_equal(send(bench->client, bytes, size, MSG_NOSIGNAL), size);
    turn(bench);
}

static void open_connection(struct bench *bench)
{
    char bytes[64];

    send_bytes(bench, OPENING, OPENING_SIZE);
    assert_true(bench->server >= 0);
    assert_int_equal(recv(bench->server, bytes, sizeof(bytes), 0), OPENING_SIZE);
}

static void guard_shows_a_connection_only_once_it_speaks_http2(void **state)
{
    struct bench bench;
    char bytes[64];

    (void)state;
    set_up(&bench);
    for (size_t i = 0; i + 1 < OPENING_SIZE; i++) {
        send_bytes(&bench, &OPENING[i], 1);
        assert_int_equal(bench.server, -1);
    }

    send_bytes(&bench, &OPENING[OPENING_SIZE - 1], 1);

    assert_int_equal(bench.uid_seen, 77);
    assert_int_equal(recv(bench.server, bytes, sizeof(bytes), 0), OPENING_SIZE);
    assert_memory_equal(bytes, OPENING, OPENING_SIZE);
    tear_down(&bench);
}

static void guard_relays_both_ways(void **state)
{
    struct bench bench;
    char bytes[64];

    (void)state;
    set_up(&bench);
    open_connection(&bench);

    send_bytes(&bench, HEADERS_1, 10);
    assert_int_equal(recv(bench.server, bytes, sizeof(bytes), 0), 10);
    assert_int_equal(send(bench.server, HEADERS_1, 10, 0), 10);
    turn(&bench);
    assert_int_equal(recv(bench.client, bytes, sizeof(bytes), 0), 10);

    assert_int_equal(bench.deaths, 0);
    tear_down(&bench);
}

/* Nothing of a chunk with a fault in it may reach the server. */
static void guard_closes_both_sides_on_a_fault(void **state)
{
    struct bench bench;
    char bytes[64];

    (void)state;
    set_up(&bench);
    open_connection(&bench);

    send_bytes(&bench, "\0\0\7\6\0\0\0\0\0xxxxxxx", 16);

    assert_int_equal(bench.deaths, 1);
    assert_string_equal(bench.reason, "frame of a wrong length");
    assert_int_equal(recv(bench.server, bytes, sizeof(bytes), 0), 0);
    assert_true(recv(bench.client, bytes, sizeof(bytes), 0) <= 0);
    tear_down(&bench);
}

static void guard_closes_what_is_not_http2(void **state)
{
    struct bench bench;

    (void)state;
    set_up(&bench);

    send_bytes(&bench, "GET / HTTP/1.1\r\n", 16);

    assert_int_equal(bench.deaths, 1);
    assert_string_equal(bench.reason, "not HTTP/2");
    assert_int_equal(bench.server, -1);
    tear_down(&bench);
}

static void guard_closes_when_the_server_takes_nobody(void **state)
{
    struct bench bench;

    (void)state;
    set_up(&bench);
    bench.is_refusing = true;

    send_bytes(&bench, OPENING, OPENING_SIZE);

    assert_int_equal(bench.deaths, 1);
    assert_null(bench.reason);
    tear_down(&bench);
}

static void guard_ends_with_the_client(void **state)
{
    struct bench bench;
    char byte;

    (void)state;
    set_up(&bench);
    open_connection(&bench);

    cr_close_fd(&bench.client);
    turn(&bench);

    assert_int_equal(bench.deaths, 1);
    assert_null(bench.reason);
    assert_int_equal(recv(bench.server, &byte, 1, 0), 0);
    tear_down(&bench);
}

/* What the server wrote before it closed must arrive, and the client may finish its own. */
static void guard_delivers_the_last_words_of_the_server(void **state)
{
    struct bench bench;
    char bytes[64];

    (void)state;
    set_up(&bench);
    open_connection(&bench);
    assert_int_equal(send(bench.server, HEADERS_1, 10, 0), 10);
    cr_close_fd(&bench.server);
    turn(&bench);

    assert_int_equal(recv(bench.client, bytes, sizeof(bytes), 0), 10);
    assert_int_equal(recv(bench.client, bytes, sizeof(bytes), 0), 0);
    assert_int_equal(bench.deaths, 0);
    send_bytes(&bench, "\0\0\1\1\4\0\0\0\3x", 10);
    assert_int_equal(bench.deaths, 0);

    bench.now_ns += CR_NS_PER_S;
    rpc_guard_check_time(bench.guard, bench.now_ns);
    assert_int_equal(bench.deaths, 1);
    assert_null(bench.reason);
    tear_down(&bench);
}

/* Sends until nothing more is taken. Returns how much was. */
static size_t fill(struct bench *bench, int fd)
{
    static const char DATA_FRAME[16393] = "\0\100\0\0\0\0\0\0\1"; /* 9 + 16,384 */
    size_t total = 0;

    for (;;) {
        ssize_t size = send(fd, DATA_FRAME + total % sizeof(DATA_FRAME),
                            sizeof(DATA_FRAME) - total % sizeof(DATA_FRAME), MSG_NOSIGNAL);

        if (size < 0) {
            assert_int_equal(errno, EAGAIN);
            return total;
        }
        total += (size_t)size;
        turn(bench);
    }
}

/* The client spoke before the guard had read them: it is told all the same. */
static void guard_delivers_the_last_words_to_a_client_that_speaks(void **state)
{
    struct bench bench;
    char bytes[64];

    (void)state;
    set_up(&bench);
    open_connection(&bench);
    assert_int_equal(send(bench.client, HEADERS_1, 10, 0), 10); /* epoll tells of it first */
    assert_int_equal(send(bench.server, HEADERS_1, 10, 0), 10);
    cr_close_fd(&bench.server);
    turn(&bench);

    assert_int_equal(bench.deaths, 0);
    assert_int_equal(recv(bench.client, bytes, sizeof(bytes), 0), 10);
    assert_int_equal(recv(bench.client, bytes, sizeof(bytes), 0), 0);
    tear_down(&bench);
}

/* The server has gone, and the client reads slowly what it left. */
static void guard_waits_for_a_slow_client_to_take_the_last_words(void **state)
{
    struct bench bench;
    char bytes[65536];
    size_t sent;
    size_t got = 0;

    (void)state;
    set_up(&bench);
    open_connection(&bench);
    sent = fill(&bench, bench.server);
    cr_close_fd(&bench.server);
    bench.host.has_timed = false;
    send_bytes(&bench, HEADERS_1, 10);
    send_bytes(&bench, "\0\0\1\1\4\0\0\0\3x", 10);
    assert_true(bench.host.has_timed);

    while (got < sent) {
        ssize_t size;

        bench.now_ns += CR_NS_PER_S;
        rpc_guard_check_time(bench.guard, bench.now_ns);
        size = recv(bench.client, bytes, sizeof(bytes), 0);
        assert_true(size > 0);
        got += (size_t)size;
        turn(&bench);
    }
    assert_int_equal(bench.deaths, 0);
    bench.now_ns += CR_NS_PER_S;
    rpc_guard_check_time(bench.guard, bench.now_ns);
    assert_int_equal(bench.deaths, 1);
    tear_down(&bench);
}

/* Such a client that takes nothing at all is given up as any other. */
static void guard_gives_up_a_client_that_leaves_the_last_words(void **state)
{
    struct bench bench;

    (void)state;
    set_up(&bench);
    open_connection(&bench);
    (void)fill(&bench, bench.server);
    cr_close_fd(&bench.server);
    send_bytes(&bench, HEADERS_1, 10);
    send_bytes(&bench, "\0\0\1\1\4\0\0\0\3x", 10);

    bench.now_ns += 59 * CR_NS_PER_S;
    rpc_guard_check_time(bench.guard, bench.now_ns);
    assert_int_equal(bench.deaths, 0);
    bench.now_ns += CR_NS_PER_S;
    rpc_guard_check_time(bench.guard, bench.now_ns);
    assert_int_equal(bench.deaths, 1);
    tear_down(&bench);
}

static size_t drain(struct bench *bench, int fd)
{
    char bytes[65536];
    size_t total = 0;

    for (;;) {
        ssize_t size = recv(fd, bytes, sizeof(bytes), 0);

        if (size <= 0)
            return total;
        total += (size_t)size;
        turn(bench);
    }
}

/* The listener's end: the server writes no more, and the client reads slowly what it wrote. */
static void guard_finishes_when_the_client_has_everything(void **state)
{
    struct bench bench;
    char bytes[4096];
    ssize_t size = 1;
    size_t sent = 0;
    size_t got = 0;

    (void)state;
    set_up(&bench);
    open_connection(&bench);
    for (size_t more = 1; more > 0; sent += more) {
        more = fill(&bench, bench.server);
        turn(&bench);
    }
    while (size != 0) {
        (void)step(&bench);
        rpc_guard_finish(bench.guard, bench.now_ns);
        size = recv(bench.client, bytes, sizeof(bytes), 0);
        assert_true(size >= 0);
        got += (size_t)size;
    }
    assert_int_equal(got, sent);
    assert_int_equal(bench.deaths, 0);
    tear_down(&bench);
}

static void guard_holds_the_sender_back_and_loses_nothing(void **state)
{
    struct bench bench;
    size_t sent;

    (void)state;
    set_up(&bench);
    open_connection(&bench);
    send_bytes(&bench, HEADERS_1, 10);

    sent = fill(&bench, bench.client);
    assert_true(sent < (size_t)4 << 20);
    assert_int_equal(drain(&bench, bench.server), sent + 10);

    sent = fill(&bench, bench.server);
    assert_true(sent < (size_t)4 << 20);
    assert_int_equal(drain(&bench, bench.client), sent);
    assert_int_equal(bench.deaths, 0);
    tear_down(&bench);
}

/* The server has ended it long ago, but is not looked at while its words wait for the client. */
static void guard_ends_who_takes_nothing(void **state)
{
    struct bench bench;
    char bytes[65536];

    (void)state;
    set_up(&bench);
    open_connection(&bench);
    send_bytes(&bench, HEADERS_1, 10);
    (void)fill(&bench, bench.server);
    cr_close_fd(&bench.server);
    bench.host.has_timed = false;
    turn(&bench);

    /* A slow one is no silent one. A socket has room when most of what it has is taken. */
    bench.now_ns += 59 * CR_NS_PER_S;
    rpc_guard_check_time(bench.guard, bench.now_ns);
    assert_true(bench.host.has_timed);
    for (int piece = 0; piece < 3; piece++)
        assert_true(recv(bench.client, bytes, sizeof(bytes), 0) > 0);
    turn(&bench);
    bench.now_ns += 59 * CR_NS_PER_S;
    rpc_guard_check_time(bench.guard, bench.now_ns);
    assert_int_equal(bench.deaths, 0);
    bench.now_ns += CR_NS_PER_S;
    rpc_guard_check_time(bench.guard, bench.now_ns);
    assert_int_equal(bench.deaths, 1);
    assert_string_equal(bench.reason ? bench.reason : "none", "takes nothing");
    tear_down(&bench);
}

/* A frame that is held back by us is not the client's delay. */
static void guard_does_not_blame_a_client_for_a_slow_server(void **state)
{
    struct bench bench;

    (void)state;
    set_up(&bench);
    open_connection(&bench);
    send_bytes(&bench, HEADERS_1, 10);
    (void)fill(&bench, bench.client);
    turn(&bench);

    bench.now_ns += 1000 * CR_NS_PER_S;
    rpc_guard_check_time(bench.guard, bench.now_ns);
    assert_int_equal(bench.deaths, 0);
    (void)drain(&bench, bench.server);
    rpc_guard_check_time(bench.guard, bench.now_ns);
    assert_int_equal(bench.deaths, 0);
    tear_down(&bench);
}

/* Two at once: the second waits for its turn, and loses nothing of what it has sent. */
static void guard_shows_connections_one_by_one(void **state)
{
    struct bench bench;

    (void)state;
    set_up(&bench);
    bench.host.resume_ns = INT64_MAX;
    bench.host.attach_ns = bench.now_ns + 1000; /* another one has just been shown */

    send_bytes(&bench, OPENING HEADERS_1, OPENING_SIZE + 10);
    assert_int_equal(bench.server, -1);
    assert_int_equal(bench.host.resume_ns, bench.now_ns + 1000);
    /* It is us who make it wait. */
    rpc_guard_check_time(bench.guard, bench.now_ns + 10 * CR_NS_PER_S);
    assert_int_equal(bench.deaths, 0);
    bench.now_ns += 1000;
    rpc_guard_resume(bench.guard, bench.now_ns);

    assert_true(bench.server >= 0);
    assert_int_equal(drain(&bench, bench.server), OPENING_SIZE + 10);
    assert_int_equal(bench.deaths, 0);
    tear_down(&bench);
}

/* Hundreds that leave at once are ended one by one; their place is taken until then. */
static void guard_ends_connections_one_by_one(void **state)
{
    struct bench bench;
    char byte;

    (void)state;
    set_up(&bench);
    bench.host.resume_ns = INT64_MAX;
    open_connection(&bench);
    bench.host.leave_ns = bench.now_ns + 1000; /* another one has just left */

    cr_close_fd(&bench.client);
    turn(&bench);
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
    tear_down(&bench);
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
    struct bench bench;
    char calls[40 * 23];
    size_t size = 0;
    size_t arrived;
    int turns = 1;

    (void)state;
    set_up(&bench);
    bench.edge.max_streams = 100;
    bench.host.resume_ns = INT64_MAX;
    open_connection(&bench);
    for (uint8_t stream = 1; stream < 80; stream = (uint8_t)(stream + 2))
        size += put_reset_call(calls + size, stream);

    send_bytes(&bench, calls, size);

    arrived = drain(&bench, bench.server);
    assert_int_equal(arrived, 16 * 23 - 4);
    for (; bench.host.resume_ns != INT64_MAX; turns++) {
        /* Too early: it only says again when. */
        bench.now_ns = bench.host.resume_ns - 1;
        bench.host.resume_ns = INT64_MAX;
        rpc_guard_resume(bench.guard, bench.now_ns);
        assert_int_equal(drain(&bench, bench.server), 0);
        bench.now_ns = bench.host.resume_ns;
        bench.host.resume_ns = INT64_MAX;
        rpc_guard_resume(bench.guard, bench.now_ns);
        turn(&bench);
        arrived += drain(&bench, bench.server);
    }
    assert_int_equal(arrived, size);
    assert_int_equal(turns, 3);
    assert_int_equal(bench.deaths, 0);
    /* And goes on as before. */
    send_bytes(&bench, "\0\0\10\6\0\0\0\0\0xxxxxxxx", 17);
    assert_int_equal(drain(&bench, bench.server), 17);
    tear_down(&bench);
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
        struct bench bench;

        set_up(&bench);
        if (delays[i].is_open)
            open_connection(&bench);
        if (delays[i].size > 0)
            send_bytes(&bench, delays[i].bytes, delays[i].size);

        bench.now_ns += 3 * CR_NS_PER_S - 1;
        rpc_guard_check_time(bench.guard, bench.now_ns);
        assert_int_equal(bench.deaths, 0);
        bench.host.has_timed = false;
        bench.now_ns += 1;
        rpc_guard_check_time(bench.guard, bench.now_ns);

        assert_int_equal(bench.deaths, delays[i].reason ? 1 : 0);
        if (delays[i].reason)
            assert_string_equal(bench.reason, delays[i].reason);
        /* An idle connection must not keep the thread awake. */
        assert_false(bench.host.has_timed);
        tear_down(&bench);
    }
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
