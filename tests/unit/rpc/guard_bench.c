/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/rpc/guard_bench.h"

#include "common/auto.h"
#include "rpc/watch.h"

#include <errno.h>
#include <string.h>

#include <sys/epoll.h>
#include <sys/socket.h>

#define TURNS 64

static int attach(void *user, int fd, const struct rpc_peer *peer, struct cr_err *err)
{
    struct guard_bench *bench = user;

    (void)err;
    if (bench->is_refusing)
        return -ESHUTDOWN;
    bench->server = fd;
    bench->uid_seen = peer->uid;
    return 0;
}

static void on_dead(void *user, struct rpc_guard *guard, const char *reason)
{
    struct guard_bench *bench = user;

    assert_ptr_equal(guard, bench->guard);
    bench->deaths++;
    bench->reason = reason;
}

void guard_set_up(struct guard_bench *bench)
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

void guard_tear_down(struct guard_bench *bench)
{
    (void)rpc_guard_free(bench->guard);
    cr_close_fd(&bench->client);
    cr_close_fd(&bench->server);
    cr_close_fd(&bench->host.epoll_fd);
    assert_int_equal(test_count_fds(), bench->fds_before);
}

bool guard_step(struct guard_bench *bench)
{
    struct epoll_event event;

    if (epoll_wait(bench->host.epoll_fd, &event, 1, 0) <= 0)
        return false;
    ((struct rpc_watch *)event.data.ptr)->on_ready(event.data.ptr, event.events, bench->now_ns);
    return true;
}

void guard_turn(struct guard_bench *bench)
{
    for (int i = 0; i < TURNS; i++) {
        if (!guard_step(bench))
            return;
    }
    fail_msg("the guard spins");
}

void guard_pass(struct guard_bench *bench, int64_t ns)
{
    bench->now_ns += ns;
    rpc_guard_check_time(bench->guard, bench->now_ns);
}

void guard_send(struct guard_bench *bench, const void *bytes, size_t size)
{
    assert_int_equal(send(bench->client, bytes, size, MSG_NOSIGNAL), size);
    guard_turn(bench);
}

void guard_open(struct guard_bench *bench)
{
    char bytes[64];

    guard_send(bench, GUARD_OPENING, GUARD_OPENING_SIZE);
    assert_true(bench->server >= 0);
    assert_int_equal(recv(bench->server, bytes, sizeof(bytes), 0), GUARD_OPENING_SIZE);
}

size_t guard_fill(struct guard_bench *bench, int fd)
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
        guard_turn(bench);
    }
}

size_t guard_drain(struct guard_bench *bench, int fd)
{
    char bytes[65536];
    size_t total = 0;

    for (;;) {
        ssize_t size = recv(fd, bytes, sizeof(bytes), 0);

        if (size <= 0)
            return total;
        total += (size_t)size;
        guard_turn(bench);
    }
}
