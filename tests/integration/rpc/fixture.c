/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/integration/rpc/fixture.h"

#include "common/clock.h"
#include "common/err.h"
#include "proto/descriptor_set.h"
#include "rpc/channel.h"
#include "rpc/connection.h"
#include "rpc/status.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>

#include <sys/socket.h>

#define PATIENCE_NS (30 * CR_NS_PER_S)

static void wait_a_little(void)
{
    (void)poll(NULL, 0, 1);
}

void wait_for_count(atomic_int *counter, int value)
{
    int64_t due_ns = cr_clock_mono_ns() + PATIENCE_NS;

    while (*counter < value && cr_clock_mono_ns() < due_ns)
        wait_a_little();
    assert_true(*counter >= value);
}

void fixture_start(struct fixture *fixture, struct rpc_server_options options)
{
    const struct rpc_method *const tables[] = {test_service_methods};
    struct cr_err err = CR_ERR_INIT;

    memset(fixture, 0, sizeof(*fixture));
    fixture->fds_before = test_count_fds();
    options.context = &fixture->service;
    options.descriptor_set = crisol_descriptor_set;
    options.descriptor_set_size = (size_t)(crisol_descriptor_set_end - crisol_descriptor_set);
    assert_int_equal(rpc_server_new(tables, 1, &options, &fixture->server, &err), 0);
    assert_int_equal(rpc_server_start(fixture->server, &err), 0);
    fixture->channel = fixture_connect(fixture);
}

int fixture_connect_raw(struct fixture *fixture)
{
    const struct rpc_peer peer = {.is_unix = true, .uid = 1234, .caller = "uid:1234"};
    struct cr_err err = CR_ERR_INIT;
    int fds[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    assert_int_equal(rpc_server_add_connection(fixture->server, fds[0], &peer, &err), 0);
    return fds[1];
}

struct rpc_channel *fixture_connect(struct fixture *fixture)
{
    const struct rpc_channel_options options = {.target = "test"};
    struct rpc_channel *channel = NULL;
    struct cr_err err = CR_ERR_INIT;

    assert_int_equal(rpc_channel_new_fd(fixture_connect_raw(fixture), &options, &channel, &err), 0);
    return channel;
}

/* Core closes its fds in its own time. */
static void wait_for_fds(int count)
{
    int64_t due_ns = cr_clock_mono_ns() + PATIENCE_NS;

    while (test_count_fds() > count && cr_clock_mono_ns() < due_ns)
        wait_a_little();
    assert_int_equal(test_count_fds(), count);
}

void fixture_stop(struct fixture *fixture)
{
    fixture->channel = rpc_channel_free(fixture->channel);
    (void)rpc_server_drain(fixture->server, 5000);
    fixture->server = rpc_server_free(fixture->server);
    wait_for_fds(fixture->fds_before);
    assert_int_equal(fixture->service.started, fixture->service.freed);
    assert_int_equal(fixture->service.overlaps, 0);
}

int fixture_echo(struct fixture *fixture, const char *type_url, int deadline_ms,
                 struct rpc_status *ret_status)
{
    Google__Protobuf__Any request = GOOGLE__PROTOBUF__ANY__INIT;
    ProtobufCMessage *response = NULL;
    char text[256];
    int code;

    (void)snprintf(text, sizeof(text), "%s", type_url);
    request.type_url = text;
    code = rpc_call_blocking(fixture->channel, &test_echo, &request.base, deadline_ms, &response,
                             ret_status);
    if (code == RPC_OK)
        assert_string_equal(((const Google__Protobuf__Any *)(const void *)response)->type_url,
                            type_url);
    rpc_message_free(response);
    return code;
}
