/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/clock.h"
#include "tests/harness/certificates.h"
#include "tests/harness/test.h"
#include "tests/unit/tls/peer.h"
#include "tls/context.h"
#include "tls/relay.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <sys/socket.h>

#define PATIENCE_MS 30000
#define HASTE_MS 300 /* of a relay that is to lose it */
#define BULK (1 << 20)

/* A relay whose plain ends the test holds. */
struct bench {
    struct test_authority authority;
    struct tls_context *context;
    struct tls_relay *relay;
    atomic_int plain_fd; /* -1 until a connection is through */
    char name[64];
    int fds_before;
};

static void on_open(void *user, int fd, const char *source, const char *name)
{
    struct bench *bench = user;

    (void)snprintf(bench->name, sizeof(bench->name), "%s|%s", source, name);
    atomic_store(&bench->plain_fd, fd);
}

/* A client that a busy machine holds up is not taken for a slow one where the relay has time. */
static void set_up(struct bench *bench, uint32_t handshakes, uint32_t handshake_ms)
{
    static const struct tls_context_options context_options = {.protocol = "http/1.1"};
    static const struct test_certificate names = {.names = "DNS:server.example"};
    const struct tls_relay_options options = {.max_connections = 8,
                                              .max_handshakes = 8,
                                              .max_source_handshakes = handshakes,
                                              .handshake_ms = handshake_ms,
                                              .stuck_ms = HASTE_MS * test_slowness(),
                                              .on_open = on_open,
                                              .user = bench};
    struct tls_relay_options own = options;
    struct cr_tls_material material;

    memset(bench, 0, sizeof(*bench));
    bench->fds_before = test_count_fds();
    atomic_init(&bench->plain_fd, -1);
    test_authority_init(&bench->authority);
    material = test_material(&bench->authority, &names, NULL);
    assert_int_equal(tls_context_new(&context_options, &bench->context, NULL), 0);
    assert_int_equal(tls_context_load(bench->context, &material, NULL), 0);
    cr_tls_material_done(&material);
    own.context = bench->context;
    assert_int_equal(tls_relay_new(&own, &bench->relay, NULL), 0);
}

static void tear_down(struct bench *bench)
{
    bench->relay = tls_relay_free(bench->relay);
    bench->context = tls_context_free(bench->context);
    test_authority_done(&bench->authority);
    assert_int_equal(test_count_fds(), bench->fds_before);
}

static int connect_to(struct bench *bench, const char *source)
{
    int pair[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
    tls_relay_add(bench->relay, pair[0], source);
    return pair[1];
}

static void wait_readable(int fd)
{
    struct pollfd watch = {.fd = fd, .events = POLLIN};

    assert_int_equal(poll(&watch, 1, PATIENCE_MS * (int)test_slowness()), 1);
}

/* Until the plain end is here. */
static int shake(struct bench *bench, struct peer *peer)
{
    int64_t due_ns = cr_clock_mono_ns() + PATIENCE_MS * test_slowness() * CR_NS_PER_MS;
    int fd;

    while ((fd = atomic_exchange(&bench->plain_fd, -1)) < 0) {
        assert_true(cr_clock_mono_ns() < due_ns);
        (void)peer_shake(peer);
        (void)poll(&(struct pollfd){.fd = peer->fd, .events = POLLIN}, 1, 2);
    }
    while (!peer_shake(peer))
        wait_readable(peer->fd);
    return fd;
}

static void relay_carries_a_question_and_a_large_answer(void **state)
{
    static char answer[BULK];
    struct bench bench;
    struct peer peer;
    size_t sent = 0;
    size_t got = 0;
    char bytes[16384];
    int plain;

    (void)state;
    memset(answer, 'x', sizeof(answer));
    set_up(&bench, 4, PATIENCE_MS);
    peer_init(&peer, connect_to(&bench, "ip:192.0.2.1"), NULL, "\x08http/1.1");
    plain = shake(&bench, &peer);
    assert_string_equal(bench.name, "ip:192.0.2.1|");
    assert_int_equal(SSL_write(peer.ssl, "question", 8), 8);
    wait_readable(plain);
    assert_int_equal(recv(plain, bytes, sizeof(bytes), 0), 8);

    while (got < BULK) {
        ssize_t n = sent < BULK ? send(plain, answer + sent, BULK - sent, MSG_NOSIGNAL) : 0;
        int size;

        if (n > 0)
            sent += (size_t)n;
        size = SSL_read(peer.ssl, bytes, sizeof(bytes));
        if (size > 0)
            got += (size_t)size;
        else
            wait_readable(peer.fd);
    }

    /* The server ends: the client hears an end, not a cut. */
    (void)close(plain);
    wait_readable(peer.fd);
    assert_int_equal(SSL_read(peer.ssl, bytes, sizeof(bytes)), 0);
    assert_int_equal(SSL_get_error(peer.ssl, 0), SSL_ERROR_ZERO_RETURN);
    peer_done(&peer);
    tear_down(&bench);
}

static void relay_passes_the_client_s_end_on_and_answers_after_it(void **state)
{
    struct bench bench;
    struct peer peer;
    char bytes[16];
    int plain;

    (void)state;
    set_up(&bench, 4, PATIENCE_MS);
    peer_init(&peer, connect_to(&bench, "a"), NULL, NULL);
    plain = shake(&bench, &peer);
    (void)SSL_shutdown(peer.ssl);
    wait_readable(plain);
    assert_int_equal(recv(plain, bytes, sizeof(bytes), 0), 0);
    assert_int_equal(send(plain, "late", 4, MSG_NOSIGNAL), 4);
    wait_readable(peer.fd);
    assert_int_equal(SSL_read(peer.ssl, bytes, sizeof(bytes)), 4);
    (void)close(plain);
    peer_done(&peer);
    tear_down(&bench);
}

/* As much as the relay takes. */
static void upload(struct peer *peer)
{
    static const char bytes[16384] = {0};

    while (SSL_write(peer->ssl, bytes, sizeof(bytes)) > 0)
        continue;
}

/* As an upload that is too large: the answer comes before its end, and the server reads no more. */
static void relay_delivers_the_answer_to_a_client_that_still_sends(void **state)
{
    struct bench bench;
    struct peer peer;
    char bytes[16];
    int plain;

    (void)state;
    set_up(&bench, 4, PATIENCE_MS);
    peer_init(&peer, connect_to(&bench, "a"), NULL, NULL);
    plain = shake(&bench, &peer);
    upload(&peer);
    wait_readable(plain);
    assert_int_equal(recv(plain, bytes, 8, 0), 8);
    assert_int_equal(send(plain, "413", 3, MSG_NOSIGNAL), 3);
    (void)close(plain);

    upload(&peer);
    wait_readable(peer.fd);
    assert_int_equal(SSL_read(peer.ssl, bytes, sizeof(bytes)), 3);
    wait_readable(peer.fd);
    assert_int_equal(SSL_read(peer.ssl, bytes, sizeof(bytes)), 0);
    assert_int_equal(SSL_get_error(peer.ssl, 0), SSL_ERROR_ZERO_RETURN);
    peer_done(&peer);
    tear_down(&bench);
}

/* The server has given it up long ago, and its end is not looked at while an answer waits. */
static void relay_ends_who_takes_nothing(void **state)
{
    static const char bytes[16384] = {0};
    struct bench bench;
    struct peer peer;
    int plain;

    (void)state;
    set_up(&bench, 4, PATIENCE_MS);
    peer_init(&peer, connect_to(&bench, "a"), NULL, NULL);
    plain = shake(&bench, &peer);
    while (poll(&(struct pollfd){.fd = plain, .events = POLLOUT}, 1, 50) > 0)
        (void)send(plain, bytes, sizeof(bytes), MSG_NOSIGNAL);
    (void)close(plain);
    assert_int_equal(poll(&(struct pollfd){.fd = peer.fd, .events = POLLRDHUP}, 1,
                          PATIENCE_MS * (int)test_slowness()),
                     1);
    peer_done(&peer);
    tear_down(&bench);
}

static void expect_close(int fd)
{
    char byte;

    wait_readable(fd);
    assert_int_equal(recv(fd, &byte, 1, 0), 0);
    (void)close(fd);
}

static void relay_closes_who_does_not_shake_hands(void **state)
{
    struct bench bench;

    (void)state;
    set_up(&bench, 4, HASTE_MS);
    expect_close(connect_to(&bench, "silent"));
    tear_down(&bench);
}

static void relay_bounds_the_handshakes_of_one_source(void **state)
{
    struct bench bench;
    struct peer peer;
    struct pollfd silent[3];
    char byte;

    (void)state;
    set_up(&bench, 2, PATIENCE_MS);
    for (size_t i = 0; i < CR_ARRAY_SIZE(silent); i++)
        silent[i] = (struct pollfd){.fd = connect_to(&bench, "one"), .events = POLLIN};
    /* One of them is closed, whichever came last to the relay. */
    assert_int_equal(poll(silent, CR_ARRAY_SIZE(silent), PATIENCE_MS / 2 * (int)test_slowness()),
                     1);
    for (size_t i = 0; i < CR_ARRAY_SIZE(silent); i++) {
        if (silent[i].revents)
            assert_int_equal(recv(silent[i].fd, &byte, 1, 0), 0);
    }
    peer_init(&peer, connect_to(&bench, "another"), NULL, NULL);
    (void)close(shake(&bench, &peer));
    peer_done(&peer);
    for (size_t i = 0; i < CR_ARRAY_SIZE(silent); i++)
        (void)close(silent[i].fd);
    tear_down(&bench);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(relay_carries_a_question_and_a_large_answer),
        cmocka_unit_test(relay_passes_the_client_s_end_on_and_answers_after_it),
        cmocka_unit_test(relay_delivers_the_answer_to_a_client_that_still_sends),
        cmocka_unit_test(relay_ends_who_takes_nothing),
        cmocka_unit_test(relay_closes_who_does_not_shake_hands),
        cmocka_unit_test(relay_bounds_the_handshakes_of_one_source),
    };

    (void)sigaction(SIGPIPE, &(struct sigaction){.sa_handler = SIG_IGN}, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
