/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/err.h"
#include "orchestrator/model/model.h"
#include "tests/harness/test.h"
#include "tests/integration/orchestrator/model_caller.h"
#include "tests/integration/orchestrator/scripted_peer.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <netinet/in.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

/* The real client against a TLS server with a certificate made here. */

static const char ANSWER[] =
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
    "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"secret text\"}]},\"finishReason\":"
    "\"STOP\"}]}\r\n\r\n";

struct tls_peer {
    SSL_CTX *context;
    int listen_fd;
    int stop_fd;
    uint16_t port;
    pthread_t thread;
    char ca_file[32];
    atomic_uint requests;
    bool goes_away; /* the first connection speaks HTTP/2 and gives up its only stream */
    atomic_uint goaways;
};

static void add_name(X509 *certificate, const char *name)
{
    X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, NULL, NID_subject_alt_name, name);

    assert_non_null(extension);
    assert_int_equal(X509_add_ext(certificate, extension, -1), 1);
    X509_EXTENSION_free(extension);
}

/* Self-signed, for `name` ("IP:127.0.0.1"), valid for an hour. */
static X509 *make_certificate(EVP_PKEY *key, const char *name)
{
    X509 *certificate = X509_new();
    X509_NAME *subject;

    assert_non_null(certificate);
    subject = X509_get_subject_name(certificate);
    assert_int_equal(X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC,
                                                (const unsigned char *)"test", -1, -1, 0),
                     1);
    assert_int_equal(X509_set_issuer_name(certificate, subject), 1);
    assert_int_equal(X509_set_version(certificate, 2), 1);
    assert_int_equal(ASN1_INTEGER_set(X509_get_serialNumber(certificate), 1), 1);
    assert_non_null(X509_gmtime_adj(X509_getm_notBefore(certificate), -60));
    assert_non_null(X509_gmtime_adj(X509_getm_notAfter(certificate), 3600));
    assert_int_equal(X509_set_pubkey(certificate, key), 1);
    add_name(certificate, name);
    assert_true(X509_sign(certificate, key, EVP_sha256()) > 0);
    return certificate;
}

static void write_ca_file(struct tls_peer *peer, X509 *certificate)
{
    FILE *file = fdopen(test_file_make(peer->ca_file, sizeof(peer->ca_file)), "w");

    assert_non_null(file);
    assert_int_equal(PEM_write_X509(file, certificate), 1);
    assert_int_equal(fclose(file), 0);
}

/* Head and body come in records of their own; what is left unread would reset the connection. */
static bool read_request(SSL *tls)
{
    struct cr_buf request;
    char block[4096];
    bool is_whole = false;
    int size = 1;

    cr_buf_init(&request, 1 << 20);
    while (!is_whole && size > 0) {
        size = SSL_read(tls, block, sizeof(block));
        if (size > 0)
            assert_int_equal(cr_buf_add(&request, block, (size_t)size), 0);
        is_whole = strstr(cr_buf_str(&request), "\"prompt\"}]}]}") != NULL;
    }
    cr_buf_done(&request);
    return is_whole;
}

/* HTTP/2 while the peer is to go away for the first time, else what is offered after it. */
static int choose_protocol(SSL *tls, const unsigned char **out, unsigned char *out_size,
                           const unsigned char *in, unsigned int in_size, void *user)
{
    static const unsigned char h2[] = "\x02h2";
    static const unsigned char h1[] = "\x08http/1.1";
    const struct tls_peer *peer = user;
    bool is_h2 = peer->goes_away && peer->goaways == 0;
    unsigned char *chosen = NULL;

    (void)tls;
    if (SSL_select_next_proto(&chosen, out_size, is_h2 ? h2 : h1, is_h2 ? 3 : 9, in, in_size) !=
        OPENSSL_NPN_NEGOTIATED)
        return SSL_TLSEXT_ERR_NOACK;
    *out = chosen;
    return SSL_TLSEXT_ERR_OK;
}

/* Settings, and when the request's head has come: GOAWAY with no stream processed (RFC 9113 6.8).
 */
static void go_away(struct tls_peer *peer, SSL *tls)
{
    static const unsigned char frames[] = {0, 0, 0, 4, 0, 0, 0, 0, 0, /* SETTINGS */
                                           0, 0, 8, 7, 0, 0, 0, 0, 0, /* GOAWAY: */
                                           0, 0, 0, 0, 0, 0, 0, 0};   /* last stream 0, no error */
    char block[4096];
    bool has_head = false;

    (void)SSL_write(tls, frames, 9);
    while (!has_head) {
        int size = SSL_read(tls, block, sizeof(block));

        if (size <= 0)
            return;
        has_head = memmem(block, (size_t)size, "\x01\x04\0\0\0\x01", 6) ||
                   memmem(block, (size_t)size, "\x01\x24\0\0\0\x01", 6);
    }
    (void)SSL_write(tls, frames + 9, 17);
    peer->goaways++;
    (void)SSL_shutdown(tls);
}

static void serve(struct tls_peer *peer, int fd)
{
    SSL *tls = SSL_new(peer->context);
    const unsigned char *protocol = NULL;
    unsigned int protocol_size = 0;

    if (SSL_set_fd(tls, fd) == 1 && SSL_accept(tls) == 1)
        SSL_get0_alpn_selected(tls, &protocol, &protocol_size);
    if (protocol_size == 2)
        go_away(peer, tls);
    else if (SSL_is_init_finished(tls) && read_request(tls)) {
        peer->requests++;
        (void)SSL_write(tls, ANSWER, (int)strlen(ANSWER));
        (void)SSL_shutdown(tls);
    }
    SSL_free(tls);
    (void)close(fd);
}

static void *run(void *user)
{
    struct tls_peer *peer = user;
    struct pollfd fds[] = {{.fd = peer->listen_fd, .events = POLLIN},
                           {.fd = peer->stop_fd, .events = POLLIN}};
    sigset_t pipe_signal;

    (void)sigemptyset(&pipe_signal);
    (void)sigaddset(&pipe_signal, SIGPIPE);
    (void)pthread_sigmask(SIG_BLOCK, &pipe_signal, NULL);
    while (poll(fds, 2, -1) > 0 && !(fds[1].revents & POLLIN)) {
        int fd = accept4(peer->listen_fd, NULL, NULL, SOCK_CLOEXEC);

        if (fd >= 0)
            serve(peer, fd);
    }
    return NULL;
}

static void open_socket(struct tls_peer *peer)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(address);

    peer->listen_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(peer->listen_fd >= 0);
    assert_int_equal(bind(peer->listen_fd, (struct sockaddr *)&address, size), 0);
    assert_int_equal(listen(peer->listen_fd, 16), 0);
    assert_int_equal(getsockname(peer->listen_fd, (struct sockaddr *)&address, &size), 0);
    peer->port = ntohs(address.sin_port);
    peer->stop_fd = eventfd(0, EFD_CLOEXEC);
    assert_true(peer->stop_fd >= 0);
}

static void tls_peer_start(struct tls_peer *peer, const char *name)
{
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *certificate = make_certificate(key, name);

    *peer = (struct tls_peer){.context = SSL_CTX_new(TLS_server_method())};
    assert_non_null(peer->context);
    assert_int_equal(SSL_CTX_use_certificate(peer->context, certificate), 1);
    assert_int_equal(SSL_CTX_use_PrivateKey(peer->context, key), 1);
    SSL_CTX_set_alpn_select_cb(peer->context, choose_protocol, peer);
    write_ca_file(peer, certificate);
    X509_free(certificate);
    EVP_PKEY_free(key);
    open_socket(peer);
    assert_int_equal(pthread_create(&peer->thread, NULL, run, peer), 0);
}

static void tls_peer_stop(struct tls_peer *peer)
{
    assert_int_equal(eventfd_write(peer->stop_fd, 1), 0);
    assert_int_equal(pthread_join(peer->thread, NULL), 0);
    (void)close(peer->listen_fd);
    (void)close(peer->stop_fd);
    SSL_CTX_free(peer->context);
    (void)unlink(peer->ca_file);
}

static void call_once(struct model_caller *caller, uint16_t port, const char *ca_file)
{
    char base_url[64];
    const struct agt_model_options options = {
        .api_key = "some-key-1234",
        .base_url = base_url,
        .ca_file = ca_file,
        .max_attempts = 2,
        .connect_timeout_ms = 500,
        .first_retry_delay_ms = 10,
    };
    struct agt_model *client = NULL;
    struct cr_err err = CR_ERR_INIT;

    (void)snprintf(base_url, sizeof(base_url), "https://127.0.0.1:%u", port);
    if (agt_gemini_new(&options, &client, &err) < 0)
        fail_msg("%s", err.text);
    model_caller_init(caller);
    model_caller_run(caller, client, NULL, "prompt", 10000);
    client->ops->free(client);
}

static void a_trusted_certificate_is_spoken_to(void **state)
{
    struct tls_peer peer;
    struct model_caller caller;

    (void)state;
    tls_peer_start(&peer, "IP:127.0.0.1");
    call_once(&caller, peer.port, peer.ca_file);
    tls_peer_stop(&peer);

    if (caller.end != AGT_MODEL_OK)
        fail_msg("%s", caller.message);
    assert_string_equal(cr_buf_str(&caller.text), "secret text");
    assert_int_equal(peer.requests, 1);
    model_caller_done(&caller);
}

static void an_unknown_or_foreign_certificate_gets_no_request(void **state)
{
    static const struct {
        const char *name;
        bool is_trusted;
    } cases[] = {{"IP:127.0.0.1", false}, {"IP:127.0.0.2", true}, {"DNS:localhost", true}};

    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(cases); i++) {
        struct tls_peer peer;
        struct model_caller caller;

        tls_peer_start(&peer, cases[i].name);
        call_once(&caller, peer.port, cases[i].is_trusted ? peer.ca_file : NULL);
        tls_peer_stop(&peer);

        assert_int_equal(caller.end, AGT_MODEL_UNAVAILABLE);
        assert_int_equal(caller.calls, 1);
        assert_non_null(strstr(caller.message, "certificate"));
        assert_int_equal(peer.requests, 0);
        model_caller_done(&caller);
    }
}

static void a_handshake_that_stalls_is_given_up(void **state)
{
    const struct peer_line line = {.after = PEER_HOLD};
    struct peer peer;
    struct model_caller caller;

    (void)state;
    peer_start(&peer, &line, 1);
    call_once(&caller, peer.port, NULL);
    peer_stop(&peer);

    assert_int_equal(caller.end, AGT_MODEL_UNAVAILABLE);
    assert_int_equal(caller.calls, 2);
    assert_true(caller.elapsed_ms >= 1000 && caller.elapsed_ms < 60000);
    assert_non_null(strstr(caller.message, "did not take the connection"));
    peer_done(&peer);
    model_caller_done(&caller);
}

static void a_connection_that_goes_away_costs_another_request(void **state)
{
    struct tls_peer peer;
    struct model_caller caller;

    (void)state;
    tls_peer_start(&peer, "IP:127.0.0.1");
    peer.goes_away = true;
    call_once(&caller, peer.port, peer.ca_file);
    tls_peer_stop(&peer);

    if (caller.end != AGT_MODEL_OK)
        fail_msg("%s", caller.message);
    assert_string_equal(cr_buf_str(&caller.text), "secret text");
    assert_int_equal(peer.goaways, 1);
    assert_int_equal(peer.requests, 1);
    model_caller_done(&caller);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_trusted_certificate_is_spoken_to),
        cmocka_unit_test(an_unknown_or_foreign_certificate_gets_no_request),
        cmocka_unit_test(a_handshake_that_stalls_is_given_up),
        cmocka_unit_test(a_connection_that_goes_away_costs_another_request),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
