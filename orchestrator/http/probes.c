/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/http/call.h"
#include "orchestrator/http/exchange.h"
#include "orchestrator/http/handlers.h"
#include "orchestrator/http/json_out.h"
#include "orchestrator/http/private.h"
#include "orchestrator/http/problem.h"
#include "orchestrator/sandbox/sight.h"
#include "rpc/client.h"

#include <crisol/sandbox/v1/sandbox.pb-c.h>

const struct rpc_client_method agt_list_runtimes = {
    .path = "/crisol.sandbox.v1.SandboxService/ListRuntimes",
    .request = &crisol__sandbox__v1__list_runtimes_request__descriptor,
    .response = &crisol__sandbox__v1__list_runtimes_response__descriptor,
};

static const Crisol__Sandbox__V1__ListRuntimesRequest list_runtimes_request =
    CRISOL__SANDBOX__V1__LIST_RUNTIMES_REQUEST__INIT;
const ProtobufCMessage *const agt_list_runtimes_request = &list_runtimes_request.base;

static void answer_written(struct agt_exchange *exchange, int written)
{
    if (written < 0)
        agt_exchange_fail_internal(exchange, "write the answer", written);
    else
        agt_exchange_answer(exchange, MHD_HTTP_OK);
}

void agt_handle_index(struct agt_exchange *exchange)
{
    answer_written(exchange, agt_routes_write(&exchange->out));
}

static int write_ok(struct cr_buf *buf)
{
    return cr_buf_add_str(buf, "{\"status\":\"ok\"}");
}

void agt_handle_livez(struct agt_exchange *exchange)
{
    answer_written(exchange, write_ok(&exchange->out));
}

static void finish_readyz(struct agt_exchange *exchange, const struct rpc_status *status,
                          const ProtobufCMessage *response)
{
    struct agt_problem problem;

    (void)status;
    if (response) {
        answer_written(exchange, write_ok(&exchange->out));
        return;
    }
    agt_problem_set(&problem, MHD_HTTP_SERVICE_UNAVAILABLE, RPC_UNAVAILABLE,
                    "sandboxd does not answer");
    agt_exchange_fail(exchange, &problem);
}

void agt_handle_readyz(struct agt_exchange *exchange)
{
    static const Crisol__Sandbox__V1__GetCapabilitiesRequest request =
        CRISOL__SANDBOX__V1__GET_CAPABILITIES_REQUEST__INIT;
    struct agt_problem problem;

    if (atomic_load(&exchange->http->must_quiesce) || atomic_load(&exchange->http->is_withdrawn)) {
        agt_problem_set(&problem, MHD_HTTP_SERVICE_UNAVAILABLE, RPC_UNAVAILABLE,
                        "the server is shutting down");
        agt_exchange_fail(exchange, &problem);
        return;
    }
    agt_call_sandboxd(exchange, &agt_get_capabilities, &request.base, AGT_SIGHT_ASKED_MS,
                      finish_readyz);
}

static const char *backend_name(Crisol__Sandbox__V1__Backend backend)
{
    switch (backend) {
    case CRISOL__SANDBOX__V1__BACKEND__BACKEND_NATIVE:
        return "native";
    case CRISOL__SANDBOX__V1__BACKEND__BACKEND_DOCKER:
        return "docker";
    default:
        return NULL;
    }
}

/* The first four members are the original's; docker_available says that an engine answers. */
static int write_health(const struct agt_http_options *options, const struct agt_seen *seen,
                        struct cr_buf *buf)
{
    const char *backend = seen->is_there ? backend_name(seen->backend) : NULL;
    bool is_docker =
        seen->is_there && seen->backend == CRISOL__SANDBOX__V1__BACKEND__BACKEND_DOCKER;
    struct agt_json json;

    agt_json_begin(&json, buf);
    agt_json_open(&json, NULL, '{');
    agt_json_str(&json, "status",
                 seen->is_there && options->is_model_configured ? "healthy" : "degraded");
    agt_json_bool(&json, "docker_available", is_docker);
    agt_json_bool(&json, "gemini_configured", options->is_model_configured);
    agt_json_str(&json, "version", options->version);
    agt_json_bool(&json, "sandbox_available", seen->is_there);
    if (backend)
        agt_json_str(&json, "backend", backend);
    else
        agt_json_null(&json, "backend");
    if (seen->is_there)
        agt_json_str(&json, "sandbox_version", seen->version);
    agt_json_bool(&json, "landlock", options->has_landlock);
    agt_json_close(&json, '}');
    return agt_json_end(&json);
}

static void finish_health(struct agt_exchange *exchange, const struct rpc_status *status,
                          const ProtobufCMessage *response)
{
    struct agt_http *http = exchange->http;
    struct agt_seen seen;

    (void)status;
    agt_sight_set(http->sight, (const void *)response, &seen);
    answer_written(exchange, write_health(&http->options, &seen, &exchange->out));
}

/* Answered from what was seen a moment ago: whoever asks often never waits for sandboxd. */
void agt_handle_health(struct agt_exchange *exchange)
{
    static const Crisol__Sandbox__V1__GetCapabilitiesRequest request =
        CRISOL__SANDBOX__V1__GET_CAPABILITIES_REQUEST__INIT;
    struct agt_http *http = exchange->http;
    struct agt_seen seen;

    if (http->options.loop && http->options.channel &&
        agt_sight_get(http->sight, http->options.loop, http->options.channel, &seen))
        answer_written(exchange, write_health(&http->options, &seen, &exchange->out));
    else
        agt_call_sandboxd(exchange, &agt_get_capabilities, &request.base, AGT_SIGHT_ASKED_MS,
                          finish_health);
}

static void finish_runtimes(struct agt_exchange *exchange, const struct rpc_status *status,
                            const ProtobufCMessage *response)
{
    struct agt_problem problem;

    if (response) {
        answer_written(exchange, agt_json_add_message(&exchange->out, response, true));
        return;
    }
    agt_problem_from_status(&problem, status);
    agt_exchange_fail(exchange, &problem);
}

void agt_handle_runtimes(struct agt_exchange *exchange)
{
    agt_call_sandboxd(exchange, &agt_list_runtimes, agt_list_runtimes_request,
                      AGT_RUNTIMES_ASKED_MS, finish_runtimes);
}
