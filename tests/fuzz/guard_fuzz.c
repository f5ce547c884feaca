/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/clock.h"
#include "rpc/guard.h"
#include "rpc/h2_frames.h"
#include "rpc/watch.h"
#include "tests/fuzz/fuzz.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include <sys/epoll.h>
#include <sys/socket.h>

#define OPENING "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0"
#define SENT_MAX 65536U
#define EVENTS_MAX 10000

/* A guard between two sockets that the input plays both ends of. */
struct bench {
    struct cr_edge edge;
    struct rpc_guard_host host;
    struct rpc_h2_budget budget;
    struct rpc_guard *guard;
    int client;
    int server; /* -1 until it is attached */
    bool is_refusing;
    int64_t now_ns;
    int deaths;
    uint8_t sent[SENT_MAX]; /* by the client … */
    size_t sent_size;
    size_t arrived; /* … and how many of them have come out */
};

static int attach(void *user, int fd, const struct rpc_peer *peer, struct cr_err *err)
{
    struct bench *bench = user;

    (void)peer;
    (void)err;
    FUZZ_CHECK(bench->server < 0);
    if (bench->is_refusing)
        return -ESHUTDOWN;
    bench->server = fd;
    return 0;
}

static void on_dead(void *user, struct rpc_guard *guard, const char *reason)
{
    struct bench *bench = user;

    (void)guard;
    (void)reason;
    bench->deaths++;
    FUZZ_CHECK(bench->deaths == 1);
}

static void open_bench(struct bench *bench)
{
    const struct rpc_peer peer = {.uid = 1};
    int pair[2];

    memset(bench, 0, offsetof(struct bench, sent));
    bench->sent_size = bench->arrived = 0;
    bench->server = -1;
    bench->now_ns = CR_NS_PER_S;
    cr_edge_defaults(&bench->edge);
    bench->edge.max_streams = 8;
    bench->host = (struct rpc_guard_host){.epoll_fd = epoll_create1(EPOLL_CLOEXEC),
                                          .edge = &bench->edge,
                                          .resume_ns = INT64_MAX,
                                          .attach = attach,
                                          .on_dead = on_dead,
                                          .user = bench};
    FUZZ_CHECK(bench->host.epoll_fd >= 0);
    FUZZ_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) == 0);
    bench->client = pair[0];
    FUZZ_CHECK(rpc_guard_new(&bench->host, pair[1], &peer, &bench->budget, bench->now_ns,
                             &bench->guard, NULL) == 0);
}

static void close_bench(struct bench *bench)
{
    (void)rpc_guard_free(bench->guard);
    cr_close_fd(&bench->client);
    cr_close_fd(&bench->server);
    cr_close_fd(&bench->host.epoll_fd);
}

/* As the loop of the listener does, until there is nothing to do at this time. It must not spin. */
static void turn(struct bench *bench)
{
    struct epoll_event event;

    for (int i = 0; i < EVENTS_MAX; i++) {
        struct rpc_watch *watch;

        if (bench->now_ns >= bench->host.resume_ns) {
            bench->host.resume_ns = INT64_MAX;
            rpc_guard_resume(bench->guard, bench->now_ns);
            FUZZ_CHECK(bench->host.resume_ns > bench->now_ns);
        }
        if (epoll_wait(bench->host.epoll_fd, &event, 1, 0) <= 0)
            return;
        watch = event.data.ptr;
        watch->on_ready(watch, event.events, bench->now_ns);
    }
    abort(); /* it spins */
}

/* What comes out is what went in: in order, and nothing else. */
static void read_as_server(struct bench *bench)
{
    uint8_t bytes[4096];
    ssize_t size;

    while (bench->server >= 0 && (size = recv(bench->server, bytes, sizeof(bytes), 0)) > 0) {
        FUZZ_CHECK(bench->arrived + (size_t)size <= bench->sent_size);
        FUZZ_CHECK(memcmp(bench->sent + bench->arrived, bytes, (size_t)size) == 0);
        bench->arrived += (size_t)size;
        turn(bench);
    }
}

static void read_as_client(struct bench *bench)
{
    uint8_t bytes[4096];

    while (bench->client >= 0 && recv(bench->client, bytes, sizeof(bytes), 0) > 0)
        turn(bench);
}

static void send_as_client(struct bench *bench, const void *data, size_t size)
{
    ssize_t sent;

    if (bench->client < 0 || size > SENT_MAX - bench->sent_size)
        return;
    sent = send(bench->client, data, size, MSG_NOSIGNAL);
    if (sent <= 0)
        return;
    memcpy(bench->sent + bench->sent_size, data, (size_t)sent);
    bench->sent_size += (size_t)sent;
}

/* A frame that is well formed, so that inputs reach what lies behind the parser. */
static size_t write_frame(uint8_t frame[13], uint8_t what)
{
    static const uint8_t kinds[] = {1, 3, 0, 8}; /* HEADERS, RST_STREAM, DATA, WINDOW_UPDATE */
    const uint8_t header[13] = {
        0, 0, 4, kinds[what & 3], 4, 0, 0, 0, (uint8_t)((what >> 2) * 2 + 1), 0, 0, 0, 8};

    memcpy(frame, header, sizeof(header));
    return sizeof(header);
}

/* Many calls that are opened and given up: what makes it pause. */
static void give_up_calls(struct bench *bench, uint8_t count)
{
    uint8_t frame[13];

    for (uint8_t i = 0; i < count % 32; i++) {
        size_t size = write_frame(frame, (uint8_t)(i << 2));

        send_as_client(bench, frame, size);
        size = write_frame(frame, (uint8_t)(i << 2 | 1));
        send_as_client(bench, frame, size);
    }
}

static void pass_time(struct bench *bench, uint8_t amount)
{
    bench->now_ns += (int64_t)amount * amount * CR_NS_PER_MS / 8;
    turn(bench);
    rpc_guard_check_time(bench->guard, bench->now_ns);
}

/* One step: what to do and a number for it. Returns how many bytes of the input it took. */
static size_t step(struct bench *bench, uint8_t what, uint8_t number, const uint8_t *data,
                   size_t size)
{
    size_t count = number < size ? number : size;
    uint8_t frame[13];

    switch (what % 10) {
    case 0:
        send_as_client(bench, data, count);
        return count;
    case 1:
        send_as_client(bench, frame, write_frame(frame, number));
        return 0;
    case 2:
        if (bench->server >= 0)
            (void)!send(bench->server, data, count, MSG_NOSIGNAL);
        return count;
    case 3:
        if (bench->server >= 0)
            (void)!send(bench->server, frame, write_frame(frame, number), MSG_NOSIGNAL);
        return 0;
    case 4:
        pass_time(bench, number);
        return 0;
    case 5:
        read_as_server(bench);
        return 0;
    case 6:
        read_as_client(bench);
        return 0;
    case 7:
        give_up_calls(bench, number);
        return 0;
    case 8:
        if (number > 200)
            cr_close_fd(&bench->client);
        return 0;
    default:
        if (number > 200)
            cr_close_fd(&bench->server);
        return 0;
    }
}

/*
 * The first byte: 1: the server refuses; 2: preface and SETTINGS are sent for
 * the input; 4: another connection has just been shown. Then steps. Whatever
 * the guard let in and did not close for must have come out at the end.
 */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct bench bench;
    bool has_server_end = false;

    if (size < 1)
        return 0;
    open_bench(&bench);
    bench.is_refusing = data[0] & 1;
    if (data[0] & 4)
        bench.host.attach_ns = bench.now_ns + CR_NS_PER_MS;
    if (data[0] & 2)
        send_as_client(&bench, OPENING, sizeof(OPENING) - 1);
    turn(&bench);
    for (size_t at = 1; at + 2 <= size && bench.deaths == 0;) {
        int server_before = bench.server;

        at += 2 + step(&bench, data[at], data[at + 1], data + at + 2, size - at - 2);
        has_server_end |= server_before >= 0 && bench.server < 0;
        turn(&bench);
    }
    read_as_server(&bench);
    while (bench.deaths == 0 && bench.host.resume_ns != INT64_MAX) {
        bench.now_ns = bench.host.resume_ns;
        turn(&bench);
        read_as_server(&bench);
    }
    if (bench.deaths == 0 && bench.server >= 0 && !has_server_end)
        FUZZ_CHECK(bench.arrived == bench.sent_size);
    close_bench(&bench);
    return 0;
}
