/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/integration/orchestrator/http_house.h"

#include "common/err.h"
#include "orchestrator/graph/engine.h"
#include "orchestrator/http/server.h"
#include "orchestrator/runs/runs.h"
#include "rpc/channel.h"
#include "rpc/client.h"
#include "rpc/connection.h"
#include "rpc/server.h"
#include "tests/harness/double_store.h"
#include "tests/harness/test.h"

#include <crisol/sandbox/v1/sandbox.pb-c.h>

#include <sys/socket.h>

static void answer_capabilities(struct rpc_call *call, const ProtobufCMessage *message)
{
    Crisol__Sandbox__V1__GetCapabilitiesResponse response =
        CRISOL__SANDBOX__V1__GET_CAPABILITIES_RESPONSE__INIT;
    char version[] = "9.9";

    (void)message;
    response.version = version;
    response.backend = CRISOL__SANDBOX__V1__BACKEND__BACKEND_NATIVE;
    rpc_call_finish(call, NULL, &response.base);
}

static void answer_runtimes(struct rpc_call *call, const ProtobufCMessage *message)
{
    Crisol__Sandbox__V1__ListRuntimesResponse response =
        CRISOL__SANDBOX__V1__LIST_RUNTIMES_RESPONSE__INIT;
    Crisol__Sandbox__V1__Runtime runtime = CRISOL__SANDBOX__V1__RUNTIME__INIT;
    Crisol__Sandbox__V1__Runtime *runtimes[] = {&runtime};
    char name[] = "python";

    (void)message;
    runtime.name = name;
    response.runtimes = runtimes;
    response.n_runtimes = 1;
    rpc_call_finish(call, NULL, &response.base);
}

static const struct rpc_method methods[] = {
    {
        .path = "/crisol.sandbox.v1.SandboxService/GetCapabilities",
        .kind = RPC_UNARY,
        .request = &crisol__sandbox__v1__get_capabilities_request__descriptor,
        .response = &crisol__sandbox__v1__get_capabilities_response__descriptor,
        .on_message = answer_capabilities,
    },
    {
        .path = "/crisol.sandbox.v1.SandboxService/ListRuntimes",
        .kind = RPC_UNARY,
        .request = &crisol__sandbox__v1__list_runtimes_request__descriptor,
        .response = &crisol__sandbox__v1__list_runtimes_response__descriptor,
        .on_message = answer_runtimes,
    },
    {0},
};

static void start_sandboxd(struct http_house *house)
{
    static const struct rpc_method *const tables[] = {methods};
    const struct rpc_server_options options = {0};
    const struct rpc_channel_options channel_options = {.target = "test"};
    const struct rpc_peer peer = {.is_unix = true, .uid = 1, .caller = "uid:1"};
    struct cr_err err = CR_ERR_INIT;
    int fds[2];

    assert_int_equal(rpc_server_new(tables, 1, &options, &house->server, &err), 0);
    assert_int_equal(rpc_server_start(house->server, &err), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    assert_int_equal(rpc_server_add_connection(house->server, fds[0], &peer, &err), 0);
    assert_int_equal(rpc_channel_new_fd(fds[1], &channel_options, &house->channel, &err), 0);
    assert_int_equal(rpc_loop_new(&house->loop, &err), 0);
}

void http_house_start(struct http_house *house, struct agt_store *take_store,
                      double_model_script model, double_sandbox_script sandbox, bool has_key)
{
    struct cr_err err = CR_ERR_INIT;
    struct agt_engine_options engine_options = {.retry_base_ms = 1};
    struct agt_runs_options runs_options = {0};
    struct agt_http_options options = {
        .address = "127.0.0.1:0", .is_model_configured = has_key, .store_timeout_ms = 300};

    *house = (struct http_house){.model = double_model_new(model, NULL),
                                 .sandbox = double_sandbox_new(sandbox, NULL),
                                 .store = take_store};
    double_model_set_configured(house->model, has_key);
    start_sandboxd(house);
    engine_options.model = house->model;
    engine_options.sandbox = house->sandbox;
    engine_options.store = house->store;
    assert_int_equal(agt_engine_new(&engine_options, &house->engine, &err), 0);
    runs_options.engine = house->engine;
    runs_options.store = house->store;
    assert_int_equal(agt_runs_new(&runs_options, &house->runs, &err), 0);
    options.runs = house->runs;
    options.sandbox = house->sandbox;
    options.loop = house->loop;
    options.channel = house->channel;
    assert_int_equal(agt_http_new(&options, &house->http, &err), 0);
    assert_int_equal(agt_http_start(house->http, &err), 0);
    house->port = agt_http_port(house->http);
}

/* In the order of main: whoever calls goes before who is called. */
bool http_house_stop(struct http_house *house)
{
    bool is_clean = agt_http_stop(house->http, 1000);

    if (house->store)
        double_store_hold(house->store, false);
    agt_http_free(house->http);
    agt_runs_free(house->runs);
    agt_engine_free(house->engine);
    rpc_loop_free(house->loop);
    rpc_channel_free(house->channel);
    (void)rpc_server_drain(house->server, 1000);
    rpc_server_free(house->server);
    house->sandbox->ops->free(house->sandbox);
    house->model->ops->free(house->model);
    if (house->store)
        house->store->ops->free(house->store);
    return is_clean;
}
