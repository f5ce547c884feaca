/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/clock.h"
#include "common/edge.h"
#include "common/err.h"
#include "google/protobuf/any.pb-c.h"
#include "rpc/status.h"
#include "tests/harness/certificates.h"
#include "tests/integration/rpc/listener_fixture.h"
#include "tls/context.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* gRPC core's own client, with its own TLS, against the listener. */

static const struct test_certificate server_names = {.names = "DNS:server.example"};
static const struct test_certificate agent = {.names = "DNS:agent.example"};

struct bench {
    struct test_authority authority;
    struct test_authority stranger;
    struct tls_context *context;
    struct cr_edge edge;
    struct listening listening;
};

static void load_server(struct bench *bench)
{
    struct cr_tls_material material =
        test_material(&bench->authority, &server_names, &bench->authority);

    assert_int_equal(tls_context_load(bench->context, &material, NULL), 0);
    cr_tls_material_done(&material);
}

static void set_up(struct bench *bench)
{
    static const struct tls_context_options options = {
        .protocol = "h2", .requires_protocol = true, .allowed_names = "agent.example,web.example"};
    struct rpc_listener_options listener_options = {.edge = &bench->edge};

    test_authority_init(&bench->authority);
    test_authority_init(&bench->stranger);
    assert_int_equal(tls_context_new(&options, &bench->context, NULL), 0);
    load_server(bench);
    cr_edge_defaults(&bench->edge);
    bench->edge.handshake_ms = 500 * test_slowness();
    bench->edge.max_address_handshakes = 3;
    listener_options.tls = bench->context;
    listening_start(&bench->listening, listener_options);
}

static void tear_down(struct bench *bench)
{
    listening_stop(&bench->listening);
    bench->context = tls_context_free(bench->context);
    test_authority_done(&bench->authority);
    test_authority_done(&bench->stranger);
}

static struct rpc_channel *connect_with(const struct bench *bench,
                                        const struct cr_tls_material *own)
{
    const struct rpc_channel_options options = {
        .target = bench->listening.tcp_address, .tls = own, .tls_name = "server.example"};
    struct rpc_channel *channel = NULL;
    struct cr_err err = CR_ERR_INIT;

    if (rpc_channel_new(&options, &channel, &err) < 0)
        fail_msg("%s", err.text);
    return channel;
}

/* Asks who calls; "" when the call fails. */
static void ask_who(struct rpc_channel *channel, char caller[64])
{
    Google__Protobuf__Any request = GOOGLE__PROTOBUF__ANY__INIT;
    struct rpc_status status = RPC_STATUS_INIT;
    ProtobufCMessage *response = NULL;
    char who[] = "who";

    caller[0] = '\0';
    request.type_url = who;
    if (rpc_call_blocking(channel, &test_echo, &request.base, 5000, &response, &status) == RPC_OK)
        (void)snprintf(caller, 64, "%s",
                       ((const Google__Protobuf__Any *)(const void *)response)->type_url);
    rpc_message_free(response);
}

static void listener_knows_callers_by_their_certificates(void **state)
{
    struct cr_tls_material own;
    struct rpc_channel *channel;
    struct bench bench;
    char caller[64];

    (void)state;
    set_up(&bench);
    own = test_material(&bench.authority, &agent, &bench.authority);
    channel = connect_with(&bench, &own);

    ask_who(channel, caller);

    assert_string_equal(caller, "san:agent.example");
    /* A unix socket has no TLS. */
    assert_int_equal(listening_echo_once(bench.listening.unix_address, 5000), RPC_OK);
    (void)rpc_channel_free(channel);
    cr_tls_material_done(&own);
    tear_down(&bench);
}

static void expect_refusal(const struct bench *bench, const struct test_authority *signer,
                           const struct test_certificate *what)
{
    struct cr_tls_material own = test_material(signer, what, &bench->authority);
    struct rpc_channel *channel = connect_with(bench, &own);

    assert_int_equal(listening_echo(channel, "x", 1500), RPC_UNAVAILABLE);
    (void)rpc_channel_free(channel);
    cr_tls_material_done(&own);
}

static void listener_refuses_those_that_are_not_named(void **state)
{
    static const struct test_certificate other = {.names = "DNS:other.example"};
    struct cr_tls_material nobody;
    struct rpc_channel *channel;
    struct bench bench;

    (void)state;
    set_up(&bench);
    expect_refusal(&bench, &bench.authority, &other);
    expect_refusal(&bench, &bench.stranger, &agent);
    nobody = test_material(&bench.authority, &agent, &bench.authority);
    cr_tls_material_done(&nobody);
    nobody.part[CR_TLS_AUTHORITY] = strdup(bench.authority.pem);
    channel = connect_with(&bench, &nobody);
    assert_int_equal(listening_echo(channel, "x", 1500), RPC_UNAVAILABLE);
    (void)rpc_channel_free(channel);
    assert_int_equal(listening_echo_once(bench.listening.tcp_address, 1500), RPC_UNAVAILABLE);
    assert_int_equal(bench.listening.service.started, 0);
    cr_tls_material_done(&nobody);
    tear_down(&bench);
}

static bool count_bytes(void *user, const ProtobufCMessage *message)
{
    *(size_t *)user += ((const Google__Protobuf__Any *)(const void *)message)->value.len;
    return true;
}

struct stream {
    struct rpc_channel *channel;
    size_t size;
    int code;
};

static void *read_stream(void *user)
{
    static const char COMMAND[] = "400 65536";
    Google__Protobuf__Any request = GOOGLE__PROTOBUF__ANY__INIT;
    struct rpc_status status = RPC_STATUS_INIT;
    struct stream *stream = user;
    char command[sizeof(COMMAND)];

    memcpy(command, COMMAND, sizeof(command));
    request.value.data = (uint8_t *)command;
    request.value.len = sizeof(command) - 1;
    stream->code = rpc_stream_blocking(stream->channel, &test_count, &request.base, 30000, -1,
                                       count_bytes, &stream->size, &status);
    return NULL;
}

/* New certificates on both sides, while a stream is in flight and one after it. */
static void listener_renews_certificates_under_a_stream(void **state)
{
    static const struct test_certificate web = {.names = "DNS:web.example"};
    struct stream stream = {.size = 0};
    struct cr_tls_material own;
    struct cr_tls_material next;
    struct bench bench;
    pthread_t thread;
    char caller[64];

    (void)state;
    set_up(&bench);
    own = test_material(&bench.authority, &agent, &bench.authority);
    next = test_material(&bench.authority, &web, &bench.authority);
    stream.channel = connect_with(&bench, &own);
    assert_int_equal(pthread_create(&thread, NULL, read_stream, &stream), 0);
    while (bench.listening.service.chunks_sent < 5)
        (void)poll(NULL, 0, 1);

    load_server(&bench);
    assert_int_equal(rpc_channel_renew(stream.channel, &next, NULL), 0);
    ask_who(stream.channel, caller);

    assert_string_equal(caller, "san:web.example");
    (void)pthread_join(thread, NULL);
    assert_int_equal(stream.code, RPC_OK);
    assert_int_equal(stream.size, (size_t)400 * 65536);
    free(next.part[CR_TLS_KEY]);
    next.part[CR_TLS_KEY] = strdup(own.part[CR_TLS_KEY]);
    assert_int_equal(rpc_channel_renew(stream.channel, &next, NULL), -EINVAL);
    ask_who(stream.channel, caller);
    assert_string_equal(caller, "san:web.example");
    (void)rpc_channel_free(stream.channel);
    cr_tls_material_done(&own);
    cr_tls_material_done(&next);
    tear_down(&bench);
}

static bool is_closed_soon(int fd, int patience_ms)
{
    struct pollfd watch = {.fd = fd, .events = POLLIN};
    char bytes[64];

    if (poll(&watch, 1, patience_ms) < 1)
        return false;
    return read(fd, bytes, sizeof(bytes)) <= 0;
}

static void listener_bounds_handshakes_in_time_and_number(void **state)
{
    int silent[3];
    struct bench bench;
    int more;

    (void)state;
    set_up(&bench);
    for (int i = 0; i < 3; i++)
        silent[i] = listening_raw(&bench.listening, false);
    more = listening_raw(&bench.listening, false);
    assert_true(is_closed_soon(more, 400));
    (void)close(more);
    for (int i = 0; i < 3; i++) {
        wait_for_close(silent[i]);
        (void)close(silent[i]);
    }
    more = listening_raw(&bench.listening, false);
    assert_false(is_closed_soon(more, 100));
    (void)close(more);
    tear_down(&bench);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(listener_knows_callers_by_their_certificates),
        cmocka_unit_test(listener_refuses_those_that_are_not_named),
        cmocka_unit_test(listener_renews_certificates_under_a_stream),
        cmocka_unit_test(listener_bounds_handshakes_in_time_and_number),
    };

    (void)sigaction(SIGPIPE, &(struct sigaction){.sa_handler = SIG_IGN}, NULL);
    rpc_init();
    int failures = cmocka_run_group_tests(tests, NULL, NULL);
    rpc_fini();
    return failures;
}
