/* SPDX-License-Identifier: Apache-2.0 */
#include "common/clock.h"
#include "common/err.h"
#include "rpc/connection.h"
#include "rpc/status.h"
#include "tests/harness/rpc_group.h"
#include "tests/integration/rpc/fixture.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include <sys/socket.h>

#define CLIENTS 8

/* Calls Echo until the server is gone. */
struct client {
    struct rpc_channel *channel;
    pthread_t thread;
    atomic_int answered;
    atomic_int refused;
    atomic_int wrong; /* any other end */
};

static void *call_until_refused(void *argument)
{
    struct client *client = argument;
    Google__Protobuf__Any request = GOOGLE__PROTOBUF__ANY__INIT;
    struct rpc_status status = RPC_STATUS_INIT;

    while (client->refused == 0 && client->wrong == 0) {
        ProtobufCMessage *response = NULL;
        int code = rpc_call_blocking(client->channel, &test_echo, &request.base, 20000, &response,
                                     &status);

        rpc_message_free(response);
        client->answered += code == RPC_OK;
        client->refused += code == RPC_UNAVAILABLE || code == RPC_CANCELLED;
        client->wrong += code != RPC_OK && code != RPC_UNAVAILABLE && code != RPC_CANCELLED;
    }
    return NULL;
}

static void start_clients(struct fixture *fixture, struct client *clients)
{
    for (int i = 0; i < CLIENTS; i++) {
        memset(&clients[i], 0, sizeof(clients[i]));
        clients[i].channel = fixture_connect(fixture);
        assert_int_equal(pthread_create(&clients[i].thread, NULL, call_until_refused, &clients[i]),
                         0);
        wait_for_count(&clients[i].answered, 1);
    }
}

static void stop_clients(struct client *clients)
{
    for (int i = 0; i < CLIENTS; i++) {
        assert_int_equal(pthread_join(clients[i].thread, NULL), 0);
        clients[i].channel = rpc_channel_free(clients[i].channel);
        assert_int_equal(clients[i].wrong, 0);
    }
}

static void a_drain_under_load_finishes_what_runs(void **state)
{
    struct client clients[CLIENTS];
    struct fixture fixture;

    (void)state;
    fixture_start(&fixture, (struct rpc_server_options){0});
    start_clients(&fixture, clients);

    assert_true(rpc_server_drain(fixture.server, 10000));

    stop_clients(clients);
    assert_int_equal(rpc_server_live_calls(fixture.server), 0);
    assert_int_equal(fixture.service.cancelled, 0);
    fixture_stop(&fixture);
}

static bool ignore_message(void *user, const ProtobufCMessage *message)
{
    (void)user;
    (void)message;
    return true;
}

/* Only those that say "elsewhere", and not what a server that is dead looks like. */
static void count_draining(void *user, const struct rpc_status *status)
{
    if (status->code == RPC_UNAVAILABLE && strcmp(status->reason, RPC_REASON_DRAINING) == 0 &&
        status->retry_after_ms > 0)
        (*(atomic_int *)user)++;
}

static void calls_that_hang_are_ended_after_the_grace_and_told_why(void **state)
{
    Google__Protobuf__Any request = GOOGLE__PROTOBUF__ANY__INIT;
    struct rpc_client_call *calls[4];
    struct client clients[CLIENTS];
    struct rpc_loop *loop = NULL;
    struct fixture fixture;
    char hang[] = "hang";
    atomic_int ends = 0;
    const struct rpc_client_handlers handlers = {
        .on_message = ignore_message, .on_end = count_draining, .user = &ends};
    int64_t start_ns;

    (void)state;
    fixture_start(&fixture, (struct rpc_server_options){0});
    start_clients(&fixture, clients);
    assert_int_equal(rpc_loop_new(&loop, NULL), 0);
    request.type_url = hang;
    for (int i = 0; i < 4; i++)
        assert_int_equal(rpc_client_start(loop, fixture.channel, &test_echo, &request.base, 0,
                                          &handlers, &calls[i], NULL),
                         0);
    wait_for_count(&fixture.service.hangs, 4);
    (void)rpc_call_unref(atomic_exchange(&fixture.service.hung, NULL));

    start_ns = cr_clock_mono_ns();
    assert_false(rpc_server_drain(fixture.server, 300));
    assert_in_range(cr_clock_mono_ns() - start_ns, 300 * CR_NS_PER_MS, 60 * CR_NS_PER_S);

    wait_for_count(&ends, 4);
    assert_int_equal(fixture.service.cancelled, 4);
    assert_int_equal(rpc_server_live_calls(fixture.server), 0);
    stop_clients(clients);
    for (int i = 0; i < 4; i++)
        (void)rpc_client_unref(calls[i]);
    (void)rpc_loop_free(loop);
    fixture_stop(&fixture);
}

static void a_connection_during_the_drain_is_refused(void **state)
{
    const struct rpc_peer peer = {.uid = 1};
    struct cr_err err = CR_ERR_INIT;
    struct fixture fixture;
    int fds[2];

    (void)state;
    fixture_start(&fixture, (struct rpc_server_options){0});
    assert_true(rpc_server_drain(fixture.server, 5000));
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);

    assert_int_equal(rpc_server_add_connection(fixture.server, fds[0], &peer, &err), -ESHUTDOWN);

    assert_int_equal(close(fds[0]), 0);
    assert_int_equal(close(fds[1]), 0);
    assert_true(rpc_server_drain(fixture.server, 0)); /* again: nothing left to do */
    fixture_stop(&fixture);
}

static void a_server_that_never_started_is_freed(void **state)
{
    const struct rpc_method *const tables[] = {test_service_methods};
    const struct rpc_server_options options = {.max_calls = 1};
    struct rpc_server *server = NULL;

    (void)state;
    assert_int_equal(rpc_server_new(tables, 1, &options, &server, NULL), 0);

    assert_true(rpc_server_drain(server, 1000));
    assert_null(rpc_server_free(server));
}

static void a_method_in_two_tables_is_refused(void **state)
{
    const struct rpc_method *const tables[] = {test_service_methods, test_service_methods};
    const struct rpc_server_options options = {.max_calls = 1};
    struct rpc_server *server = NULL;
    struct cr_err err = CR_ERR_INIT;

    (void)state;
    assert_int_equal(rpc_server_new(tables, 2, &options, &server, &err), -EEXIST);
    assert_null(server);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_drain_under_load_finishes_what_runs),
        cmocka_unit_test(calls_that_hang_are_ended_after_the_grace_and_told_why),
        cmocka_unit_test(a_connection_during_the_drain_is_refused),
        cmocka_unit_test(a_server_that_never_started_is_freed),
        cmocka_unit_test(a_method_in_two_tables_is_refused),
    };

    return cmocka_run_group_tests(tests, test_rpc_init, test_rpc_fini);
}
