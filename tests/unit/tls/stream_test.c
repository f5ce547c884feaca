/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "tests/harness/certificates.h"
#include "tests/harness/test.h"
#include "tests/unit/tls/peer.h"
#include "tls/context.h"
#include "tls/stream.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include <openssl/ssl.h>

#include <sys/socket.h>

#define TURNS 40
#define H2 "\x02h2"

static const struct test_certificate server_names = {.names = "DNS:server.example"};
static const struct test_certificate agent = {.names = "DNS:agent.example"};

/* A server's stream and a client on a socket pair. */
struct bench {
    struct test_authority authority;
    struct test_authority stranger;
    struct tls_context *context;
    struct tls_stream *stream;
    struct peer peer;
    int fd; /* of the stream */
};

static void set_up(struct bench *bench, const char *allowed, const struct cr_tls_material *own,
                   const char *protocols)
{
    const struct tls_context_options options = {
        .protocol = "h2", .requires_protocol = true, .allowed_names = allowed};
    struct cr_tls_material material =
        test_material(&bench->authority, &server_names, &bench->authority);
    int pair[2];

    assert_int_equal(tls_context_new(&options, &bench->context, NULL), 0);
    assert_int_equal(tls_context_load(bench->context, &material, NULL), 0);
    cr_tls_material_done(&material);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
    bench->fd = pair[0];
    bench->stream = tls_stream_new(bench->context, bench->fd);
    assert_non_null(bench->stream);
    peer_init(&bench->peer, pair[1], own, protocols);
}

static void begin(struct bench *bench)
{
    test_authority_init(&bench->authority);
    test_authority_init(&bench->stranger);
}

static void tear_down(struct bench *bench)
{
    bench->stream = tls_stream_free(bench->stream);
    peer_done(&bench->peer);
    (void)close(bench->fd);
    bench->context = tls_context_free(bench->context);
    test_authority_done(&bench->authority);
    test_authority_done(&bench->stranger);
}

static enum tls_step shake(struct bench *bench)
{
    enum tls_step step = TLS_STEP_WAIT;

    for (int i = 0; i < TURNS && step == TLS_STEP_WAIT; i++) {
        (void)peer_shake(&bench->peer);
        step = tls_stream_handshake(bench->stream);
    }
    (void)peer_shake(&bench->peer);
    return step;
}

static void stream_carries_bytes_both_ways_and_knows_the_name(void **state)
{
    struct cr_tls_material own;
    struct bench bench;
    char bytes[32];

    (void)state;
    begin(&bench);
    own = test_material(&bench.authority, &agent, NULL);
    set_up(&bench, "other.example,agent.example", &own, H2);

    assert_int_equal(shake(&bench), TLS_STEP_DONE);

    assert_string_equal(tls_stream_name(bench.stream), "agent.example");
    assert_int_equal(tls_stream_read(bench.stream, bytes, sizeof(bytes)), -1);
    assert_int_equal(errno, EAGAIN);
    assert_int_equal(SSL_write(bench.peer.ssl, "question", 8), 8);
    assert_int_equal(tls_stream_read(bench.stream, bytes, sizeof(bytes)), 8);
    assert_memory_equal(bytes, "question", 8);
    assert_int_equal(tls_stream_write(bench.stream, "answer", 6), 6);
    assert_int_equal(SSL_read(bench.peer.ssl, bytes, sizeof(bytes)), 6);
    (void)SSL_shutdown(bench.peer.ssl);
    assert_int_equal(tls_stream_read(bench.stream, bytes, sizeof(bytes)), 0);
    cr_tls_material_done(&own);
    tear_down(&bench);
}

/* An end that nobody announced may be an attacker's: it must not look like one. */
static void stream_tells_a_cut_from_an_end(void **state)
{
    struct cr_tls_material own;
    struct bench bench;
    char byte;

    (void)state;
    begin(&bench);
    own = test_material(&bench.authority, &agent, NULL);
    set_up(&bench, NULL, &own, H2);
    assert_int_equal(shake(&bench), TLS_STEP_DONE);
    assert_int_equal(shutdown(bench.peer.fd, SHUT_RDWR), 0);
    assert_int_equal(tls_stream_read(bench.stream, &byte, 1), -1);
    assert_int_equal(errno, ECONNRESET);
    cr_tls_material_done(&own);
    tear_down(&bench);
}

static void expect_fault(const struct test_certificate *what, bool is_stranger, bool shows_none,
                         const char *protocols, const char *words)
{
    struct cr_tls_material own;
    struct bench bench;

    begin(&bench);
    own = test_material(is_stranger ? &bench.stranger : &bench.authority, what, NULL);
    set_up(&bench, "agent.example", shows_none ? NULL : &own, protocols);

    assert_int_equal(shake(&bench), TLS_STEP_FAILED);

    if (!strstr(tls_stream_fault(bench.stream), words))
        fail_msg("'%s' does not say '%s'", tls_stream_fault(bench.stream), words);
    cr_tls_material_done(&own);
    tear_down(&bench);
}

static void stream_refuses_clients_and_says_why(void **state)
{
    static const struct test_certificate other = {.names = "DNS:other.example"};
    static const struct test_certificate nameless = {.names = NULL};
    static const struct test_certificate quoted = {.names = "URI:a\"b"};
    static const struct test_certificate old = {
        .names = "DNS:agent.example", .begins_s = -7200, .ends_s = -3600};
    static const struct test_certificate early = {
        .names = "DNS:agent.example", .begins_s = 3600, .ends_s = 7200};
    static const struct test_certificate server = {.names = "DNS:agent.example",
                                                   .usage = "serverAuth"};

    (void)state;
    expect_fault(&agent, false, true, H2, "shows no certificate");
    expect_fault(&other, false, false, H2, "no name that is allowed (first: other.example)");
    expect_fault(&nameless, false, false, H2, "no name that is allowed (first: none)");
    expect_fault(&quoted, false, false, H2, "no name that is allowed (first: none)");
    expect_fault(&old, false, false, H2, "has expired");
    expect_fault(&early, false, false, H2, "not valid yet");
    expect_fault(&server, false, false, H2, "not one for clients");
    expect_fault(&agent, true, false, H2, "authority that is not ours");
    expect_fault(&agent, false, false, "\x08http/1.1", "protocol of this port");
    expect_fault(&agent, false, false, NULL, "protocol of this port");
}

static void stream_refuses_old_versions_and_plain_text(void **state)
{
    static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    struct bench bench;

    (void)state;
    begin(&bench);
    set_up(&bench, NULL, NULL, H2);
    SSL_set_security_level(bench.peer.ssl, 0);
    assert_int_equal(SSL_set_min_proto_version(bench.peer.ssl, TLS1_VERSION), 1);
    assert_int_equal(SSL_set_max_proto_version(bench.peer.ssl, TLS1_1_VERSION), 1);
    assert_int_equal(shake(&bench), TLS_STEP_FAILED);
    assert_non_null(strstr(tls_stream_fault(bench.stream), "TLS from 1.2 on"));
    tear_down(&bench);

    begin(&bench);
    set_up(&bench, NULL, NULL, H2);
    assert_int_equal(send(bench.peer.fd, preface, sizeof(preface) - 1, 0), sizeof(preface) - 1);
    assert_int_equal(tls_stream_handshake(bench.stream), TLS_STEP_FAILED);
    assert_non_null(strstr(tls_stream_fault(bench.stream), "plain text"));
    tear_down(&bench);
}

static void stream_serves_tls_12(void **state)
{
    struct cr_tls_material own;
    struct bench bench;

    (void)state;
    begin(&bench);
    own = test_material(&bench.authority, &agent, NULL);
    set_up(&bench, NULL, &own, H2);
    assert_int_equal(SSL_set_max_proto_version(bench.peer.ssl, TLS1_2_VERSION), 1);
    assert_int_equal(shake(&bench), TLS_STEP_DONE);
    /* A second handshake on the same connection would cost us one for free. */
    (void)SSL_renegotiate(bench.peer.ssl);
    (void)peer_shake(&bench.peer);
    assert_int_equal(tls_stream_read(bench.stream, &(char){0}, 1), -1);
    assert_false(peer_shake(&bench.peer));
    cr_tls_material_done(&own);
    tear_down(&bench);
}

/* Each costs a derivation of keys, and there is no end of them. */
static void stream_gives_up_a_client_that_changes_its_keys_all_the_time(void **state)
{
    struct cr_tls_material own;
    struct bench bench;
    int updates = 0;
    char byte;

    (void)state;
    begin(&bench);
    own = test_material(&bench.authority, &agent, NULL);
    set_up(&bench, NULL, &own, H2);
    assert_int_equal(shake(&bench), TLS_STEP_DONE);
    do {
        assert_int_equal(SSL_key_update(bench.peer.ssl, SSL_KEY_UPDATE_NOT_REQUESTED), 1);
        (void)peer_shake(&bench.peer);
        updates++;
    } while (updates < 100 && tls_stream_read(bench.stream, &byte, 1) < 0 && errno == EAGAIN);
    assert_in_range(updates, 32, 34);
    cr_tls_material_done(&own);
    tear_down(&bench);
}

static void stream_without_a_certificate_is_none(void **state)
{
    static const struct tls_context_options options = {.protocol = "h2"};
    struct tls_context *context = NULL;

    (void)state;
    assert_int_equal(tls_context_new(&options, &context, NULL), 0);
    assert_null(tls_stream_new(context, 0));
    (void)tls_context_free(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stream_carries_bytes_both_ways_and_knows_the_name),
        cmocka_unit_test(stream_tells_a_cut_from_an_end),
        cmocka_unit_test(stream_refuses_clients_and_says_why),
        cmocka_unit_test(stream_refuses_old_versions_and_plain_text),
        cmocka_unit_test(stream_serves_tls_12),
        cmocka_unit_test(stream_gives_up_a_client_that_changes_its_keys_all_the_time),
        cmocka_unit_test(stream_without_a_certificate_is_none),
    };

    (void)sigaction(SIGPIPE, &(struct sigaction){.sa_handler = SIG_IGN}, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
