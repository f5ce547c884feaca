/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/clock.h"
#include "common/edge.h"
#include "common/err.h"
#include "common/listen.h"
#include "google/protobuf/any.pb-c.h"
#include "rpc/status.h"
#include "tests/harness/rpc_group.h"
#include "tests/integration/rpc/fixture.h"
#include "tests/integration/rpc/listener_fixture.h"
#include "tests/integration/rpc/raw.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <sys/resource.h>

static const struct rpc_listener_options defaults = {.edge = NULL};

static void listener_serves_calls_on_both_kinds_of_address(void **state)
{
    struct listening listening;

    (void)state;
    listening_start(&listening, defaults);

    assert_int_equal(listening_echo_once(listening.unix_address, 5000), RPC_OK);
    assert_int_equal(listening.service.last_uid, getuid());
    assert_int_equal(listening_echo_once(listening.tcp_address, 5000), RPC_OK);

    listening_stop(&listening);
}

static bool count_bytes(void *user, const ProtobufCMessage *message)
{
    *(size_t *)user += ((const Google__Protobuf__Any *)(const void *)message)->value.len;
    return true;
}

/* Larger than every buffer on the way, so that back-pressure has to work in both directions. */
static void listener_relays_a_large_stream_whole(void **state)
{
    static const char COMMAND[] = "200 65536";
    Google__Protobuf__Any request = GOOGLE__PROTOBUF__ANY__INIT;
    struct rpc_status status = RPC_STATUS_INIT;
    struct listening listening;
    struct rpc_channel *channel;
    char command[sizeof(COMMAND)];
    size_t size = 0;

    (void)state;
    listening_start(&listening, defaults);
    channel = listening_connect(listening.tcp_address);
    memcpy(command, COMMAND, sizeof(command));
    request.value.data = (uint8_t *)command;
    request.value.len = sizeof(command) - 1;

    assert_int_equal(rpc_stream_blocking(channel, &test_count, &request.base, 20000, -1,
                                         count_bytes, &size, &status),
                     RPC_OK);

    assert_int_equal(size, (size_t)200 * 65536);
    (void)rpc_channel_free(channel);
    listening_stop(&listening);
}

static void listener_takes_a_socket_of_somebody_else(void **state)
{
    struct cr_listen listen = CR_LISTEN_INIT;
    struct rpc_listener *listener = NULL;
    struct listening listening;
    struct cr_err err = CR_ERR_INIT;
    char address[32];

    (void)state;
    listening_start(&listening, defaults);
    assert_int_equal(cr_listen_open("127.0.0.1:0", (uid_t)-1, &listen, &err), 0);
    (void)snprintf(address, sizeof(address), "127.0.0.1:%u", listen.port);
    assert_int_equal(rpc_listener_new(listening.server, NULL, &listener, &err), 0);
    assert_int_equal(rpc_listener_take_fd(listener, STDIN_FILENO, &err) < 0, true);
    assert_int_equal(rpc_listener_take_fd(listener, listen.fd, &err), 0);
    assert_int_equal(rpc_listener_port(listener, 0), listen.port);
    assert_int_equal(rpc_listener_start(listener, &err), 0);

    assert_int_equal(listening_echo_once(address, 5000), RPC_OK);

    (void)rpc_listener_free(listener);
    listening_stop(&listening);
}

static void listener_refuses_users_that_are_not_allowed(void **state)
{
    const uid_t other[] = {getuid() + 1};
    struct rpc_listener_options options = {.allowed_uids = other, .allowed_uid_count = 1};
    struct listening listening;
    CR_AUTO_CLOSE int fd = -1;

    (void)state;
    listening_start(&listening, options);

    fd = listening_raw(&listening, true);
    assert_true(fd >= 0);
    wait_for_close(fd);
    assert_int_equal(listening_echo_once(listening.unix_address, 2000), RPC_UNAVAILABLE);
    /* The list is for unix sockets: a TCP caller has no uid. */
    assert_int_equal(listening_echo_once(listening.tcp_address, 5000), RPC_OK);

    cr_close_fd(&fd);
    listening_stop(&listening);
}

static void listener_names_the_path_that_another_serves(void **state)
{
    struct rpc_listener *second = NULL;
    struct listening listening;
    struct cr_err err = CR_ERR_INIT;

    (void)state;
    listening_start(&listening, defaults);
    assert_int_equal(rpc_listener_new(listening.server, NULL, &second, &err), 0);

    assert_int_equal(rpc_listener_add(second, listening.unix_address, &err), -EADDRINUSE);
    assert_non_null(strstr(err.text, listening.unix_address + 5));
    assert_int_equal(rpc_listener_add(second, listening.tcp_address, &err), -EADDRINUSE);
    assert_non_null(strstr(err.text, "is taken by process"));

    (void)rpc_listener_free(second);
    assert_int_equal(listening_echo_once(listening.unix_address, 5000), RPC_OK);
    listening_stop(&listening);
}

static void listener_stop_refuses_new_callers_and_keeps_the_old(void **state)
{
    struct listening listening;
    struct rpc_channel *channel;

    (void)state;
    listening_start(&listening, defaults);
    channel = listening_connect(listening.unix_address);
    assert_int_equal(listening_echo(channel, "before", 5000), RPC_OK);

    rpc_listener_stop(listening.listener);
    rpc_listener_stop(listening.listener);

    assert_int_equal(listening_raw(&listening, true), -1);
    assert_int_equal(listening_raw(&listening, false), -1);
    assert_int_equal(access(listening.unix_address + 5, F_OK), -1);
    assert_int_equal(listening_echo(channel, "after", 5000), RPC_OK);
    (void)rpc_channel_free(channel);
    listening_stop(&listening);
}

static void listener_holds_the_number_of_connections_of_a_peer(void **state)
{
    struct cr_edge edge;
    struct rpc_listener_options options = {.edge = &edge};
    struct listening listening;
    int fds[4];

    (void)state;
    cr_edge_defaults(&edge);
    edge.max_user_connections = 3;
    listening_start(&listening, options);
    for (size_t i = 0; i < CR_ARRAY_SIZE(fds); i++) {
        fds[i] = listening_raw(&listening, true);
        assert_true(fds[i] >= 0);
    }

    wait_for_close(fds[3]);
    (void)close(fds[0]);
    /* The place is free as soon as the listener has seen the end of the first. */
    for (int tries = 0; listening_echo_once(listening.unix_address, 2000) != RPC_OK; tries++)
        assert_true(tries < 100);

    for (size_t i = 1; i < CR_ARRAY_SIZE(fds); i++)
        (void)close(fds[i]);
    listening_stop(&listening);
}

static void listener_holds_the_rate_of_new_connections_of_a_peer(void **state)
{
    struct cr_edge edge;
    struct rpc_listener_options options = {.edge = &edge};
    struct listening listening;

    (void)state;
    cr_edge_defaults(&edge);
    edge.user_accepts = (struct cr_rate){.per_s = 1, .burst = 64};
    listening_start(&listening, options);

    /* The burst is 64; on a busy machine some tokens are added meanwhile. */
    for (int i = 0; i < 128; i++) {
        CR_AUTO_CLOSE int fd = listening_raw(&listening, true);

        assert_true(fd >= 0);
        if (i >= 96)
            wait_for_close(fd);
    }

    listening_stop(&listening);
}

static void listener_lets_256_callers_of_one_user_in(void **state)
{
    static const uint8_t EMPTY_MESSAGE[5];
    struct listening listening;
    struct rlimit before;
    struct rlimit high;
    int fds[256];

    (void)state;
    /* Four descriptors for each, as both sides are in this process. */
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    high = before;
    high.rlim_cur = before.rlim_max < 4096 ? before.rlim_max : 4096;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &high), 0);
    listening_start(&listening, defaults);

    for (size_t i = 0; i < CR_ARRAY_SIZE(fds); i++) {
        fds[i] = listening_raw(&listening, true);
        assert_true(fds[i] >= 0);
        raw_open(fds[i], "/crisol.test.v1.TestService/Echo");
    }
    for (size_t i = 0; i < CR_ARRAY_SIZE(fds); i++)
        raw_data(fds[i], EMPTY_MESSAGE, sizeof(EMPTY_MESSAGE), true);
    for (size_t i = 0; i < CR_ARRAY_SIZE(fds); i++)
        assert_int_equal(raw_read_status(fds[i]), RPC_OK);

    for (size_t i = 0; i < CR_ARRAY_SIZE(fds); i++)
        (void)close(fds[i]);
    listening_stop(&listening);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
}

/*
 * CVE-2023-4785: in core's own listener one EMFILE was the end of all accepting. Here callers are
 * refused while there are no descriptors, and served as soon as there are.
 */
static void listener_survives_running_out_of_fds(void **state)
{
    struct listening listening;
    struct rpc_channel *channel;
    struct rlimit before;
    struct rlimit low;
    int client[64];
    size_t count = 0;

    (void)state;
    listening_start(&listening, defaults);
    channel = listening_connect(listening.unix_address);
    assert_int_equal(listening_echo(channel, "before", 5000), RPC_OK);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    /* Room for some sockets of this process's clients, but not for the other ends. */
    low = before;
    low.rlim_cur = (rlim_t)test_count_fds() + 24;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
    while (count < CR_ARRAY_SIZE(client) && (client[count] = listening_raw(&listening, true)) >= 0)
        count++;
    assert_in_range(count, 5, 32);

    assert_int_equal(listening_echo(channel, "during", 5000), RPC_OK);

    for (size_t i = 0; i < count; i++)
        (void)close(client[i]);
    for (int tries = 0; listening_echo_once(listening.unix_address, 2000) != RPC_OK; tries++)
        assert_true(tries < 100);
    for (int tries = 0; listening_echo_once(listening.tcp_address, 2000) != RPC_OK; tries++)
        assert_true(tries < 100);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    (void)rpc_channel_free(channel);
    listening_stop(&listening);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(listener_serves_calls_on_both_kinds_of_address),
        cmocka_unit_test(listener_relays_a_large_stream_whole),
        cmocka_unit_test(listener_takes_a_socket_of_somebody_else),
        cmocka_unit_test(listener_refuses_users_that_are_not_allowed),
        cmocka_unit_test(listener_names_the_path_that_another_serves),
        cmocka_unit_test(listener_stop_refuses_new_callers_and_keeps_the_old),
        cmocka_unit_test(listener_holds_the_number_of_connections_of_a_peer),
        cmocka_unit_test(listener_holds_the_rate_of_new_connections_of_a_peer),
        cmocka_unit_test(listener_lets_256_callers_of_one_user_in),
        cmocka_unit_test(listener_survives_running_out_of_fds),
    };

    return cmocka_run_group_tests(tests, test_rpc_init, test_rpc_fini);
}
