/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/stack.h"

#include "common/err.h"
#include "common/log.h"
#include "common/renewals.h"
#include "common/slice.h"
#include "orchestrator/config.h"
#include "orchestrator/graph/engine.h"
#include "orchestrator/http/server.h"
#include "orchestrator/links.h"
#include "orchestrator/meter/meter.h"
#include "orchestrator/model/model.h"
#include "orchestrator/provider.h"
#include "orchestrator/runs/runs.h"
#include "orchestrator/sandbox/sandbox.h"
#include "orchestrator/service/agent.h"
#include "orchestrator/service/readiness.h"
#include "orchestrator/store/store.h"
#include "orchestrator/trace/tracer.h"
#include "proto/descriptor_set.h"
#include "rpc/client.h"
#include "rpc/health_port.h"
#include "rpc/listener.h"
#include "rpc/server.h"

#include <stdlib.h>
#include <string.h>

/* For calls and streams that end, or are cut off, after the runs have. */
#define TAIL_GRACE_MS 2000
/* Calls beside those that have a run. */
#define SPARE_CALLS 256
#define SERVICE_NAME "crisol.agent.v1.AgentService"

struct agt_stack {
    const struct cr_renewals *renewals; /* of the links; borrowed */
    struct agt_model *model;
    bool has_rpc;
    struct rpc_channel *channel;
    struct rpc_loop *loop;
    struct agt_sandbox *sandbox;
    struct agt_store *store; /* NULL: runs end with the process */
    struct agt_meter *meter;
    struct agt_tracer *tracer; /* NULL: spans go nowhere */
    struct agt_engine *engine;
    struct agt_runs *runs;
    struct agt_http *http;
    struct agt_service service;
    struct rpc_server *server;
    struct rpc_listener *listener;
    struct rpc_health_port *health;  /* NULL: none … */
    struct agt_readiness *readiness; /* … and so is this */
};

static int make_model(struct agt_stack *stack, const struct agt_config *config, struct cr_err *err)
{
    int r = agt_provider_open(config, 0, &stack->model, err);

    return r < 0 ? cr_err_wrap(err, "set up the model client") : 0;
}

static int make_sandbox(struct agt_stack *stack, const struct agt_config *config,
                        const struct agt_links *links, struct cr_err *err)
{
    const char *service_config = agt_sandbox_service_config(config->sandbox);
    const struct rpc_channel_options options = {.target = config->sandbox,
                                                .service_config_json = service_config,
                                                .tls = agt_links_sandbox(links),
                                                .tls_name = config->sandbox_name,
                                                .token = agt_links_sandbox_token(links)};
    int r;

    rpc_init();
    stack->has_rpc = true;
    r = rpc_channel_new(&options, &stack->channel, err);
    if (r == 0)
        r = rpc_loop_new(&stack->loop, err);
    if (r == 0)
        r = agt_sandbox_client_new(stack->loop, stack->channel, service_config != NULL,
                                   &stack->sandbox, err);
    return r < 0 ? cr_err_wrap(err, "set up the client of sandboxd") : 0;
}

static int make_store(struct agt_stack *stack, const struct agt_config *config, struct cr_err *err)
{
    static const char sqlite[] = "sqlite:/";
    struct agt_sqlite_options options = {.min_free_bytes = config->store_free_mib << 20};
    struct agt_postgres_options shared = {.lease_ms = (uint32_t)config->lease_ms};
    int r;

    if (strcmp(config->store, "none") == 0)
        return 0;
    if (strncmp(config->store, sqlite, strlen(sqlite)) == 0) {
        options.path = config->store + strlen(sqlite) - 1;
        r = agt_store_sqlite_new(&options, &stack->store, err);
    } else { /* the settings let nothing else pass */
        shared.uri = config->store;
        r = agt_store_postgres_new(&shared, &stack->store, err);
    }
    return r < 0 ? cr_err_wrap(err, "open the journal of runs") : 0;
}

static int make_tracer(struct agt_stack *stack, const struct agt_config *config, struct cr_err *err)
{
    const struct agt_tracer_options options = {
        .endpoint = config->otlp_endpoint,
        .headers = config->otlp_headers,
        .service = config->otlp_service,
        .ca_file = config->ca_file,
    };

    if (!config->otlp_endpoint || !config->otlp_endpoint[0])
        return 0;
    return agt_tracer_new(&options, &stack->tracer, err);
}

static int make_engine(struct agt_stack *stack, const struct agt_config *config,
                       const struct agt_signer *signer, struct cr_err *err)
{
    stack->meter = agt_meter_new();
    const struct agt_engine_options options = {
        .catalog = config->catalog,
        .model = stack->model,
        .sandbox = stack->sandbox,
        .store = stack->store,
        .meter = stack->meter,
        .tracer = stack->tracer,
        .signer = signer,
        .max_runs = (uint32_t)config->max_runs,
        .run_timeout_ms = (uint32_t)config->run_time_s * 1000,
        .stall_same_code = (uint32_t)config->stall_same_code,
        .stall_same_failure = (uint32_t)config->stall_same_failure,
    };
    struct agt_runs_options runs_options = {
        .store = stack->store,
        .max_caller_live = (uint32_t)config->caller_runs,
        .caller_per_minute = (uint32_t)config->caller_rate,
        .max_ended = (uint32_t)config->keep_runs,
        .max_ended_bytes = (size_t)config->keep_mib << 20,
        .max_ended_age_s = (uint32_t)config->keep_s,
    };
    int r = agt_engine_new(&options, &stack->engine, err);

    runs_options.engine = stack->engine;
    if (r == 0)
        r = agt_runs_new(&runs_options, &stack->runs, err);
    return r < 0 ? cr_err_wrap(err, "set up the engine") : 0;
}

/* On the thread of HTTP, which starts when everything is there and stops before it goes. */
static void write_metrics(void *user, struct cr_metrics *metrics)
{
    const struct agt_stack *stack = user;

    rpc_server_write_metrics(stack->server, metrics);
    rpc_channel_write_metrics(stack->channel, metrics);
    agt_tracer_write(stack->tracer, metrics);
    cr_renewals_write(stack->renewals, metrics);
}

static int make_http(struct agt_stack *stack, const struct agt_config *config,
                     const struct agt_links *links, bool has_landlock, struct cr_err *err)
{
    const struct agt_http_options options = {
        .address = config->http,
        .runs = stack->runs,
        .sandbox = stack->sandbox,
        .meter = stack->meter,
        .write_metrics = write_metrics,
        .write_user = stack,
        .descriptor_set = crisol_descriptor_set,
        /* cppcheck-suppress comparePointers; begin and end of one object of assembly */
        .descriptor_set_size = (size_t)(crisol_descriptor_set_end - crisol_descriptor_set),
        .loop = stack->loop,
        .channel = stack->channel,
        .is_model_configured = stack->model->ops->is_configured(stack->model),
        .has_landlock = has_landlock,
        .tls = agt_links_http(links),
        .tokens = agt_links_tokens(links),
        .allowed_hosts = config->http_hosts,
        .allowed_origins = config->http_origins,
    };
    int r;

    if (!config->http || config->http[0] == '\0')
        return 0;
    r = agt_http_new(&options, &stack->http, err);
    return r < 0 ? cr_err_wrap(err, "set up HTTP on '%s'", config->http) : 0;
}

/* Its threads answer a probe whatever the others have to do: with a short slice they run as soon as
 * one comes. */
static int make_health(struct agt_stack *stack, const struct agt_config *config, struct cr_err *err)
{
    int r;

    if (!config->health_listen || !config->health_listen[0])
        return 0;
    cr_slice_set(CR_SLICE_SHORT_NS);
    r = rpc_health_port_new(config->health_listen, -1, &stack->health, err);
    cr_slice_set(0);
    if (r == 0)
        r = agt_readiness_new(stack->health, stack->loop, stack->channel, &stack->readiness, err);
    return r < 0 ? cr_err_wrap(err, "--health-listen") : 0;
}

static int make_server(struct agt_stack *stack, const struct agt_config *config,
                       const struct agt_links *links, struct cr_err *err)
{
    const struct rpc_method *const tables[] = {agt_service_methods};
    const struct rpc_listener_options listener_options = {.edge = &config->limits,
                                                          .tls = agt_links_grpc(links)};
    const struct rpc_server_options options = {
        .context = &stack->service,
        .authorize = agt_service_authorize,
        .max_calls = (uint32_t)config->max_runs + SPARE_CALLS,
        .max_streams = config->limits.max_streams,
        .connection_age_s = config->limits.age_s,
        .connection_grace_s = config->limits.age_grace_s,
        .descriptor_set = crisol_descriptor_set,
        /* cppcheck-suppress comparePointers; begin and end of one object of assembly */
        .descriptor_set_size = (size_t)(crisol_descriptor_set_end - crisol_descriptor_set),
    };
    int r;

    stack->service.runs = stack->runs;
    stack->service.tokens = agt_links_tokens(links);
    r = rpc_server_new(tables, 1, &options, &stack->server, err);
    if (r == 0)
        r = rpc_listener_new(stack->server, &listener_options, &stack->listener, err);
    if (r == 0)
        r = rpc_listener_add(stack->listener, config->listen, err);
    if (r == 0)
        r = make_health(stack, config, err);
    return r < 0 ? cr_err_wrap(err, "set up gRPC on '%s'", config->listen) : 0;
}

static void set_serving(struct agt_stack *stack, bool is_serving)
{
    rpc_server_set_serving(stack->server, "", is_serving);
    rpc_server_set_serving(stack->server, SERVICE_NAME, is_serving);
    if (stack->readiness)
        agt_readiness_set_serving(stack->readiness, is_serving);
}

/* Every address is taken and everything is there: now let the callers in. */
static int start(struct agt_stack *stack, struct cr_err *err)
{
    int r = agt_runs_load(stack->runs, err);

    if (r == 0)
        r = rpc_server_start(stack->server, err);

    if (r == 0 && stack->http)
        r = agt_http_start(stack->http, err);
    if (r == 0)
        r = rpc_listener_start(stack->listener, err);
    if (r < 0)
        return cr_err_wrap(err, "start serving");
    /* Neither sandboxd nor the model counts: without them runs end with a cause. Whether callers
     * should rather go elsewhere is what the port of health is for. */
    set_serving(stack, true);
    agt_stack_look(stack);
    return 0;
}

int agt_stack_up(const struct agt_config *config, const struct agt_links *links, bool has_landlock,
                 const struct agt_signer *signer, struct agt_stack **ret_stack, struct cr_err *err)
{
    struct agt_stack *stack = calloc(1, sizeof(*stack));
    int r;

    if (!stack)
        return cr_err_set(err, ENOMEM, "out of memory");
    stack->renewals = agt_links_renewals(links);
    r = make_model(stack, config, err);
    if (r == 0)
        r = make_sandbox(stack, config, links, err);
    if (r == 0)
        r = make_store(stack, config, err);
    if (r == 0)
        r = make_tracer(stack, config, err);
    if (r == 0)
        r = make_engine(stack, config, signer, err);
    if (r == 0)
        r = make_http(stack, config, links, has_landlock, err);
    if (r == 0)
        r = make_server(stack, config, links, err);
    if (r == 0)
        r = start(stack, err);
    if (r < 0) {
        (void)agt_stack_down(stack);
        return r;
    }
    *ret_stack = stack;
    return 0;
}

struct rpc_channel *agt_stack_channel(const struct agt_stack *stack)
{
    return stack->channel;
}

/* Length of the host in "host:port". */
static int host_length(const char *address)
{
    const char *colon = strrchr(address, ':');

    return colon ? (int)(colon - address) : 0;
}

void agt_stack_log_ready(const struct agt_stack *stack, const struct agt_config *config)
{
    if (!stack->model->ops->is_configured(stack->model))
        cr_log_warn("%s Until then runs are refused; everything else works.",
                    agt_gemini_no_key_help);
    cr_log_info("ready grpc=%.*s:%u http=%.*s:%u sandbox=%s model=%s health_port=%u",
                host_length(config->listen), config->listen, rpc_listener_port(stack->listener, 0),
                stack->http ? host_length(config->http) : 0, config->http,
                stack->http ? agt_http_port(stack->http) : 0, config->sandbox,
                stack->model->ops->default_model(stack->model),
                stack->health ? rpc_health_port_number(stack->health) : 0);
}

void agt_stack_look(struct agt_stack *stack)
{
    stack->sandbox->ops->look(stack->sandbox);
    if (stack->readiness)
        agt_readiness_look(stack->readiness);
}

size_t agt_stack_loops(const struct agt_stack *stack,
                       struct agt_stack_loop ret_loops[AGT_STACK_LOOPS_MAX])
{
    size_t count = 0;

    ret_loops[count++] = (struct agt_stack_loop){"calls", rpc_server_turns(stack->server)};
    ret_loops[count++] = (struct agt_stack_loop){"the engine", agt_engine_turns(stack->engine)};
    ret_loops[count++] = (struct agt_stack_loop){"sandboxd", rpc_loop_turns(stack->loop)};
    ret_loops[count++] =
        (struct agt_stack_loop){"the model", stack->model->ops->turns(stack->model)};
    if (stack->http)
        ret_loops[count++] = (struct agt_stack_loop){"HTTP", agt_http_turns(stack->http)};
    return count;
}

void agt_stack_withdraw(struct agt_stack *stack)
{
    set_serving(stack, false);
    if (stack->http)
        agt_http_withdraw(stack->http);
}

void agt_stack_drain(struct agt_stack *stack, int grace_ms)
{
    set_serving(stack, false);
    if (stack->http)
        agt_http_quiesce(stack->http);
    rpc_listener_stop(stack->listener);
    agt_runs_quiesce(stack->runs);
    if (!agt_engine_drain(stack->engine, grace_ms))
        cr_log_warn("runs did not end in time, %s runs=%u",
                    stack->store ? "leaving them to the next start" : "cancelling",
                    agt_engine_live_runs(stack->engine));
    (void)rpc_server_drain(stack->server, TAIL_GRACE_MS);
    if (stack->http)
        (void)agt_http_stop(stack->http, TAIL_GRACE_MS);
}

struct agt_stack *agt_stack_down(struct agt_stack *stack)
{
    if (!stack)
        return NULL;
    if (stack->listener)
        rpc_listener_stop(stack->listener);
    if (stack->store) /* calls may wait for it */
        stack->store->ops->hurry(stack->store);
    if (stack->server)
        (void)rpc_server_drain(stack->server, 0);
    (void)rpc_listener_free(stack->listener);
    (void)rpc_server_free(stack->server);
    (void)agt_readiness_free(stack->readiness);
    (void)rpc_health_port_free(stack->health);
    (void)agt_http_free(stack->http);
    (void)agt_runs_free(stack->runs);
    (void)agt_engine_free(stack->engine); /* waits for every model and sandbox call */
    (void)agt_tracer_free(stack->tracer);
    (void)agt_meter_free(stack->meter);
    if (stack->store)
        stack->store->ops->free(stack->store);
    if (stack->sandbox)
        stack->sandbox->ops->free(stack->sandbox);
    (void)rpc_loop_free(stack->loop);
    (void)rpc_channel_free(stack->channel);
    if (stack->model)
        stack->model->ops->free(stack->model);
    if (stack->has_rpc)
        rpc_fini();
    free(stack);
    return NULL;
}
