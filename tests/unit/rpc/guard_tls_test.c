/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/clock.h"
#include "common/edge.h"
#include "rpc/guard.h"
#include "rpc/h2_frames.h"
#include "rpc/watch.h"
#include "tests/harness/certificates.h"
#include "tests/harness/test.h"
#include "tests/unit/tls/peer.h"
#include "tls/context.h"
#include "tls/stream.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

#include <sys/epoll.h>
#include <sys/socket.h>

#define PREFACE "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
#define PREFACE_SIZE (sizeof(PREFACE) - 1)
#define SETTINGS_SIZE 9U
#define HEADERS "\0\0\1\1\4\0\0\0\1x"
#define HEADERS_SIZE 10U
#define HEAD_SIZE 9U
#define RECORD_SIZE 16384U

/* A guard behind TLS, with a clock that stands; the test plays both the client and the server. */
struct bench {
    struct cr_edge edge;
    struct rpc_guard_host host;
    struct rpc_h2_budget budget;
    struct test_authority authority;
    struct tls_context *context;
    struct rpc_guard *guard;
    struct peer peer;
    int server; /* -1 until attached */
    int64_t now_ns;
    int fds_before;
};

static int attach(void *user, int fd, const struct rpc_peer *peer, struct cr_err *err)
{
    struct bench *bench = user;

    (void)peer;
    (void)err;
    bench->server = fd;
    return 0;
}

static void on_dead(void *user, struct rpc_guard *guard, const char *reason)
{
    (void)user;
    (void)guard;
    fail_msg("the guard died: %s", reason ? reason : "?");
}

static void turn(struct bench *bench)
{
    struct epoll_event event;

    for (int i = 0; i < 64; i++) {
        if (epoll_wait(bench->host.epoll_fd, &event, 1, 0) <= 0)
            return;
        bench->now_ns++; /* a pass of the loop */
        ((struct rpc_watch *)event.data.ptr)->on_ready(event.data.ptr, event.events, bench->now_ns);
    }
    fail_msg("the guard spins");
}

static void set_up(struct bench *bench)
{
    static const struct tls_context_options options = {.protocol = "h2"};
    static const struct test_certificate names = {.names = "DNS:server.example"};
    const struct rpc_peer peer = {.uid = 77};
    struct cr_tls_material material;
    struct tls_stream *stream;
    int pair[2];

    memset(bench, 0, sizeof(*bench));
    bench->fds_before = test_count_fds();
    bench->server = -1;
    bench->now_ns = CR_NS_PER_S;
    cr_edge_defaults(&bench->edge);
    bench->host = (struct rpc_guard_host){.epoll_fd = epoll_create1(EPOLL_CLOEXEC),
                                          .edge = &bench->edge,
                                          .attach = attach,
                                          .on_dead = on_dead,
                                          .user = bench};
    test_authority_init(&bench->authority);
    material = test_material(&bench->authority, &names, NULL);
    assert_int_equal(tls_context_new(&options, &bench->context, NULL), 0);
    assert_int_equal(tls_context_load(bench->context, &material, NULL), 0);
    cr_tls_material_done(&material);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
    stream = tls_stream_new(bench->context, pair[1]);
    assert_non_null(stream);
    assert_int_equal(rpc_guard_new(&bench->host, pair[1], &peer, &bench->budget, bench->now_ns,
                                   &bench->guard, NULL),
                     0);
    rpc_guard_secure(bench->guard, stream);
    peer_init(&bench->peer, pair[0], NULL, "\x02h2");
    while (!peer_shake(&bench->peer))
        turn(bench);
    turn(bench);
}

static void tear_down(struct bench *bench)
{
    (void)rpc_guard_free(bench->guard);
    peer_done(&bench->peer);
    cr_close_fd(&bench->server);
    cr_close_fd(&bench->host.epoll_fd);
    bench->context = tls_context_free(bench->context);
    test_authority_done(&bench->authority);
    assert_int_equal(test_count_fds(), bench->fds_before);
}

/* Settings, a call, and a message that fills up a record of TLS. */
static void make_record(uint8_t record[RECORD_SIZE])
{
    const size_t body = RECORD_SIZE - SETTINGS_SIZE - HEADERS_SIZE - HEAD_SIZE;
    uint8_t *data = record + SETTINGS_SIZE + HEADERS_SIZE;

    memset(record, 0, RECORD_SIZE);
    record[3] = 4; /* SETTINGS */
    memcpy(record + SETTINGS_SIZE, HEADERS, HEADERS_SIZE);
    data[1] = (uint8_t)(body >> 8);
    data[2] = (uint8_t)body;
    data[8] = 1; /* DATA of stream 1 */
}

/* The preface in a record of its own leaves less room than the next record needs: its end waits in
 * the library, and no socket tells of it. */
static void guard_passes_on_the_rest_of_a_record(void **state)
{
    struct bench bench;
    uint8_t record[RECORD_SIZE];
    uint8_t bytes[4096];
    size_t got = 0;

    (void)state;
    set_up(&bench);
    make_record(record);
    assert_int_equal(SSL_write(bench.peer.ssl, PREFACE, PREFACE_SIZE), PREFACE_SIZE);
    turn(&bench);
    assert_int_equal(SSL_write(bench.peer.ssl, record, sizeof(record)), sizeof(record));
    turn(&bench);

    assert_true(bench.server >= 0);
    for (ssize_t n; (n = recv(bench.server, bytes, sizeof(bytes), MSG_DONTWAIT)) > 0;) {
        got += (size_t)n;
        turn(&bench);
    }
    assert_int_equal(got, PREFACE_SIZE + RECORD_SIZE);
    tear_down(&bench);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(guard_passes_on_the_rest_of_a_record),
    };

    (void)sigaction(SIGPIPE, &(struct sigaction){.sa_handler = SIG_IGN}, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
