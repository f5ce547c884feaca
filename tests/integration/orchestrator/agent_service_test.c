/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/clock.h"
#include "common/err.h"
#include "crisol/agent/v1/agent.pb-c.h"
#include "orchestrator/runs/runs.h"
#include "orchestrator/service/agent.h"
#include "rpc/channel.h"
#include "rpc/connection.h"
#include "rpc/status.h"
#include "tests/harness/double_store.h"
#include "tests/harness/engine_fixture.h"
#include "tests/harness/rpc_group.h"
#include "tests/harness/test.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include <sys/socket.h>

#define EVENT(name) CRISOL__AGENT__V1__RUN_EVENT__EVENT_##name
#define METHOD(name, snake)                                                                        \
    {                                                                                              \
        .path = "/crisol.agent.v1.AgentService/" name,                                             \
        .request = &crisol__agent__v1__##snake##_request__descriptor,                              \
        .response = &crisol__agent__v1__##snake##_response__descriptor,                            \
    }
#define BIG_PLAN (2U * 1024 * 1024)
#define PATIENCE_NS (30 * CR_NS_PER_S)

enum {
    SOLVE,
    HOLD,
    BIG,
    STALL, /* on a store: the same code again, until there is a hint */
};

#define HINT "Mind the carry."

struct fixture {
    struct engine_fixture engine;
    struct agt_service service;
    struct agt_store *store; /* NULL: none */
    struct rpc_server *server;
    struct rpc_channel *channel;
};

static const struct rpc_client_method generate = METHOD("Generate", generate);
static const struct rpc_client_method generate_stream = METHOD("GenerateStream", generate_stream);
static const struct rpc_client_method resume_run = METHOD("ResumeRun", resume_run);
static const struct rpc_client_method describe_graph = METHOD("DescribeGraph", describe_graph);

/* What the model of mode BIG plans. */
static char *big_plan;

static void answer(void *user, const struct agt_model_request *request,
                   struct double_answer *ret_answer)
{
    const struct engine_fixture *fixture = user;

    double_solve(NULL, request, ret_answer);
    ret_answer->is_held = fixture->mode == HOLD;
    if (fixture->mode == STALL && strcmp(request->purpose, "plan") != 0 &&
        !strstr(request->prompt, HINT))
        ret_answer->text = double_good_files;
    if (fixture->mode == BIG) {
        ret_answer->delta_size = 4096;
        if (strcmp(request->purpose, "plan") == 0)
            ret_answer->text = big_plan;
    }
}

static void fail_good_files(void *user, const Crisol__Sandbox__V1__ExecuteRequest *request,
                            struct double_execution *ret_execution)
{
    const struct engine_fixture *fixture = user;

    double_pass(user, request, ret_execution);
    if (fixture->mode != STALL || strstr(request->files[0]->text, "T = 1"))
        return;
    ret_execution->exit_code = 1;
    ret_execution->failed = 1;
}

static void set_up(struct fixture *fixture, int mode)
{
    const struct rpc_method *const tables[] = {agt_service_methods};
    const struct rpc_server_options options = {.context = &fixture->service};
    const struct rpc_channel_options channel_options = {.target = "test"};
    const struct rpc_peer peer = {.is_unix = true, .uid = 1, .caller = "uid:1"};
    struct agt_engine_options engine_options = {.retry_base_ms = 1};
    struct agt_runs_options runs_options = {0};
    int fds[2];

    *fixture = (struct fixture){.engine.mode = mode};
    fixture->store = mode == STALL ? double_store_new() : NULL;
    engine_options.store = fixture->store;
    engine_fixture_start(&fixture->engine, answer, fail_good_files, &engine_options);
    runs_options.engine = fixture->engine.engine;
    runs_options.store = fixture->store;
    assert_int_equal(agt_runs_new(&runs_options, &fixture->service.runs, NULL), 0);
    assert_int_equal(rpc_server_new(tables, 1, &options, &fixture->server, NULL), 0);
    assert_int_equal(rpc_server_start(fixture->server, NULL), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    assert_int_equal(rpc_server_add_connection(fixture->server, fds[0], &peer, NULL), 0);
    assert_int_equal(rpc_channel_new_fd(fds[1], &channel_options, &fixture->channel, NULL), 0);
}

/* Core closes its fds in its own time. */
static void wait_for_fds(int count)
{
    int64_t due_ns = cr_clock_mono_ns() + PATIENCE_NS;

    while (test_count_fds() > count && cr_clock_mono_ns() < due_ns)
        (void)poll(NULL, 0, 1);
}

static void tear_down(struct fixture *fixture)
{
    int fds = fixture->engine.fds_before;

    (void)rpc_channel_free(fixture->channel);
    (void)rpc_server_drain(fixture->server, 5000);
    (void)rpc_server_free(fixture->server);
    wait_for_fds(fds + 1); /* the engine's mailbox */
    (void)agt_runs_free(fixture->service.runs);
    engine_fixture_stop(&fixture->engine);
    if (fixture->store)
        fixture->store->ops->free(fixture->store);
}

static void wait_until_idle(const struct fixture *fixture)
{
    int64_t due_ns = cr_clock_mono_ns() + PATIENCE_NS;

    while (agt_engine_live_runs(fixture->engine.engine) > 0 && cr_clock_mono_ns() < due_ns)
        (void)poll(NULL, 0, 1);
    assert_int_equal(agt_engine_live_runs(fixture->engine.engine), 0);
}

static char task_text[] = "add two numbers";

static void generate_answers_with_the_result(void **state)
{
    Crisol__Agent__V1__GenerateRequest request = CRISOL__AGENT__V1__GENERATE_REQUEST__INIT;
    Crisol__Sandbox__V1__Limits limits = CRISOL__SANDBOX__V1__LIMITS__INIT;
    const Crisol__Agent__V1__GenerateResponse *response;
    struct rpc_status status = RPC_STATUS_INIT;
    ProtobufCMessage *message = NULL;
    struct fixture fixture;

    (void)state;
    set_up(&fixture, SOLVE);
    limits.wall_time_ms = 5000;
    request.task = task_text;
    request.sandbox_limits = &limits;
    assert_int_equal(
        rpc_call_blocking(fixture.channel, &generate, &request.base, 20000, &message, &status),
        RPC_OK);

    response = (const void *)message;
    assert_int_equal(response->result->status, CRISOL__AGENT__V1__RUN_STATUS__RUN_STATUS_SUCCESS);
    assert_string_equal(response->result->task, task_text);
    assert_int_equal(response->result->n_files, 2);
    rpc_message_free(message);
    tear_down(&fixture);
}

struct seen {
    uint32_t seq;
    uint32_t states;
    uint32_t gaps;
    uint32_t dropped;
    uint32_t results;
    uint32_t deltas;
    Crisol__Agent__V1__RunStatus status; /* of the result */
    char run_id[33];                     /* likewise */
    uint32_t stop_after;                 /* messages; 0: never */
};

static bool is_delta(const Crisol__Agent__V1__RunEvent *event)
{
    return event->event_case == EVENT(MODEL_DELTA) || event->event_case == EVENT(OUTPUT_DELTA) ||
           event->event_case == EVENT(GAP) || event->event_case == EVENT(HEARTBEAT);
}

static bool on_event(void *user, const ProtobufCMessage *message)
{
    const Crisol__Agent__V1__GenerateStreamResponse *response = (const void *)message;
    const Crisol__Agent__V1__RunEvent *event = response->event;
    struct seen *seen = user;

    assert_int_equal(seen->results, 0);
    if (event->event_case == EVENT(GAP)) {
        seen->gaps++;
        seen->dropped += event->gap->dropped_deltas;
    } else if (is_delta(event)) {
        seen->deltas++;
    } else {
        assert_int_equal(event->seq, seen->seq + 1);
        seen->seq = event->seq;
        seen->states++;
    }
    if (event->event_case == EVENT(RESULT)) {
        seen->results++;
        seen->status = event->result->status;
        (void)memccpy(seen->run_id, event->run_id, '\0', sizeof(seen->run_id) - 1);
    }
    return seen->stop_after == 0 || seen->states < seen->stop_after;
}

static void stream_has_every_state_event_and_ends_with_the_result(void **state)
{
    Crisol__Agent__V1__GenerateStreamRequest request =
        CRISOL__AGENT__V1__GENERATE_STREAM_REQUEST__INIT;
    struct rpc_status status = RPC_STATUS_INIT;
    struct seen seen = {.seq = 0};
    struct fixture fixture;

    (void)state;
    set_up(&fixture, SOLVE);
    request.task = task_text;
    assert_int_equal(rpc_stream_blocking(fixture.channel, &generate_stream, &request.base, 60000,
                                         -1, on_event, &seen, &status),
                     RPC_OK);

    assert_int_equal(seen.results, 1);
    assert_int_equal(seen.states, 22);
    tear_down(&fixture);
}

/* A client that takes nothing until the run is over. */
struct slow {
    struct seen seen;
    int is_open;   /* atomic */
    int has_ended; /* atomic */
    enum rpc_code code;
};

static bool on_slow_event(void *user, const ProtobufCMessage *message)
{
    struct slow *slow = user;

    (void)on_event(&slow->seen, message);
    return __atomic_load_n(&slow->is_open, __ATOMIC_ACQUIRE);
}

static void on_slow_end(void *user, const struct rpc_status *status)
{
    struct slow *slow = user;

    slow->code = status->code;
    __atomic_store_n(&slow->has_ended, 1, __ATOMIC_RELEASE);
}

static void slow_client_gets_a_gap_and_still_every_state_event(void **state)
{
    Crisol__Agent__V1__GenerateStreamRequest request =
        CRISOL__AGENT__V1__GENERATE_STREAM_REQUEST__INIT;
    struct slow slow = {.is_open = 0};
    struct rpc_client_handlers handlers = {
        .on_message = on_slow_event, .on_end = on_slow_end, .user = &slow};
    struct rpc_client_call *call = NULL;
    struct rpc_loop *loop = NULL;
    int64_t due_ns = cr_clock_mono_ns() + PATIENCE_NS;
    struct fixture fixture;

    (void)state;
    big_plan = malloc(BIG_PLAN + 1);
    assert_non_null(big_plan);
    memset(big_plan, 'x', BIG_PLAN);
    big_plan[BIG_PLAN] = '\0';
    set_up(&fixture, BIG);
    request.task = task_text;
    assert_int_equal(rpc_loop_new(&loop, NULL), 0);
    assert_int_equal(rpc_client_start(loop, fixture.channel, &generate_stream, &request.base, 60000,
                                      &handlers, &call, NULL),
                     0);
    while (agt_engine_live_runs(fixture.engine.engine) == 0 && cr_clock_mono_ns() < due_ns)
        (void)poll(NULL, 0, 1);
    wait_until_idle(&fixture);
    __atomic_store_n(&slow.is_open, 1, __ATOMIC_RELEASE);
    rpc_client_resume(call);
    while (!__atomic_load_n(&slow.has_ended, __ATOMIC_ACQUIRE) && cr_clock_mono_ns() < due_ns)
        (void)poll(NULL, 0, 1);

    assert_int_equal(slow.has_ended, 1);
    assert_int_equal(slow.code, RPC_OK);
    assert_int_equal(slow.seen.results, 1);
    assert_int_equal(slow.seen.states, 22);
    assert_true(slow.seen.gaps >= 1);
    /* One output delta; the plan and the files in pieces of 4 KiB. */
    assert_int_equal(slow.seen.deltas + slow.seen.dropped, BIG_PLAN / 4096 + 1 + 1);
    (void)rpc_client_unref(call);
    (void)rpc_loop_free(loop);
    tear_down(&fixture);
    free(big_plan);
}

static void cancelling_the_call_cancels_the_run(void **state)
{
    Crisol__Agent__V1__GenerateStreamRequest request =
        CRISOL__AGENT__V1__GENERATE_STREAM_REQUEST__INIT;
    struct rpc_status status = RPC_STATUS_INIT;
    struct seen seen = {.stop_after = 1};
    struct fixture fixture;

    (void)state;
    set_up(&fixture, HOLD);
    request.task = task_text;
    assert_int_equal(rpc_stream_blocking(fixture.channel, &generate_stream, &request.base, 60000,
                                         -1, on_event, &seen, &status),
                     RPC_CANCELLED);

    wait_until_idle(&fixture);
    tear_down(&fixture);
}

static void deadline_of_the_client_cancels_the_run(void **state)
{
    Crisol__Agent__V1__GenerateRequest request = CRISOL__AGENT__V1__GENERATE_REQUEST__INIT;
    struct rpc_status status = RPC_STATUS_INIT;
    ProtobufCMessage *message = NULL;
    struct fixture fixture;

    (void)state;
    set_up(&fixture, HOLD);
    request.task = task_text;
    assert_int_equal(
        rpc_call_blocking(fixture.channel, &generate, &request.base, 100, &message, &status),
        RPC_DEADLINE_EXCEEDED);

    wait_until_idle(&fixture);
    tear_down(&fixture);
}

static void bad_fields_are_named_over_the_wire(void **state)
{
    Crisol__Agent__V1__GenerateRequest request = CRISOL__AGENT__V1__GENERATE_REQUEST__INIT;
    struct rpc_status status = RPC_STATUS_INIT;
    ProtobufCMessage *message = NULL;
    struct fixture fixture;

    (void)state;
    set_up(&fixture, SOLVE);
    request.max_iterations = 11;
    assert_int_equal(
        rpc_call_blocking(fixture.channel, &generate, &request.base, 20000, &message, &status),
        RPC_INVALID_ARGUMENT);

    assert_int_equal(status.violation_count, 2);
    assert_string_equal(status.violations[0].field, "task");
    assert_string_equal(status.violations[1].field, "max_iterations");
    tear_down(&fixture);
}

static void missing_key_is_a_failed_precondition(void **state)
{
    Crisol__Agent__V1__GenerateStreamRequest request =
        CRISOL__AGENT__V1__GENERATE_STREAM_REQUEST__INIT;
    struct rpc_status status = RPC_STATUS_INIT;
    struct seen seen = {.seq = 0};
    struct fixture fixture;

    (void)state;
    set_up(&fixture, SOLVE);
    double_model_set_configured(fixture.engine.model, false);
    request.task = task_text;
    assert_int_equal(rpc_stream_blocking(fixture.channel, &generate_stream, &request.base, 60000,
                                         -1, on_event, &seen, &status),
                     RPC_FAILED_PRECONDITION);

    assert_string_equal(status.message, agt_gemini_no_key_help);
    assert_string_equal(status.reason, "MODEL_KEY_MISSING");
    tear_down(&fixture);
}

static void graph_is_described(void **state)
{
    Crisol__Agent__V1__DescribeGraphRequest request =
        CRISOL__AGENT__V1__DESCRIBE_GRAPH_REQUEST__INIT;
    const Crisol__Agent__V1__DescribeGraphResponse *response;
    struct rpc_status status = RPC_STATUS_INIT;
    ProtobufCMessage *message = NULL;
    struct fixture fixture;
    char run_id[] = "x";

    (void)state;
    set_up(&fixture, SOLVE);
    assert_int_equal(rpc_call_blocking(fixture.channel, &describe_graph, &request.base, 20000,
                                       &message, &status),
                     RPC_OK);
    response = (const void *)message;
    assert_non_null(strstr(response->mermaid, "evaluator -->|repair| generator"));
    assert_non_null(strstr(response->dot, "digraph agent"));
    assert_int_equal(response->n_nodes, 6);
    assert_int_equal(response->n_edges, 22);
    assert_int_equal(response->nodes[0]->retries, 2);
    assert_true(response->nodes[0]->timeout_ms > 0);
    assert_int_equal(response->nodes[5]->timeout_ms, 0);
    rpc_message_free(message);

    request.run_id = run_id;
    assert_int_equal(rpc_call_blocking(fixture.channel, &describe_graph, &request.base, 20000,
                                       &message, &status),
                     RPC_INVALID_ARGUMENT);
    assert_memory_equal(status.message, "run_id: ", 8);
    tear_down(&fixture);
}

/* The provider of these tests has no list; tests/integration/…/model_replay_test.c has one. */
static void models_of_a_provider_without_a_list_are_refused(void **state)
{
    static const struct rpc_client_method list_models = METHOD("ListModels", list_models);
    Crisol__Agent__V1__ListModelsRequest request = CRISOL__AGENT__V1__LIST_MODELS_REQUEST__INIT;
    struct rpc_status status = RPC_STATUS_INIT;
    ProtobufCMessage *message = NULL;
    struct fixture fixture;

    (void)state;
    set_up(&fixture, SOLVE);
    assert_int_equal(
        rpc_call_blocking(fixture.channel, &list_models, &request.base, 20000, &message, &status),
        RPC_UNIMPLEMENTED);
    assert_non_null(strstr(status.message, "no list of models"));
    tear_down(&fixture);
}

/* Each begins with the id of a run, field 1. */
static const struct rpc_client_method about_runs[] = {
    METHOD("ResumeRun", resume_run),
    METHOD("ForkRun", fork_run),
    METHOD("ExportRun", export_run),
    METHOD("DeleteRun", delete_run),
};

static enum rpc_code ask_about(const struct fixture *fixture,
                               const struct rpc_client_method *method, const char *run_id,
                               struct rpc_status *status)
{
    uint8_t packed[64] = {1 << 3 | 2, (uint8_t)strlen(run_id)};
    ProtobufCMessage *response = NULL;
    ProtobufCMessage *request;

    memcpy(packed + 2, run_id, strlen(run_id));
    request = protobuf_c_message_unpack(method->request, NULL, 2 + strlen(run_id), packed);
    assert_non_null(request);
    *status = (struct rpc_status)RPC_STATUS_INIT;
    (void)rpc_call_blocking(fixture->channel, method, request, 20000, &response, status);
    rpc_message_free(response);
    protobuf_c_message_free_unpacked(request, NULL);
    return status->code;
}

static void a_run_that_is_not_there_is_told_by_each_method(void **state)
{
    struct fixture fixture;

    (void)state;
    set_up(&fixture, SOLVE);
    for (size_t i = 0; i < CR_ARRAY_SIZE(about_runs); i++) {
        struct rpc_status status;

        assert_int_equal(ask_about(&fixture, &about_runs[i], "x", &status), RPC_INVALID_ARGUMENT);
        assert_memory_equal(status.message, "run_id: ", 8);
        assert_int_equal(
            ask_about(&fixture, &about_runs[i], "00000000000000000000000000000001", &status),
            RPC_NOT_FOUND);
    }
    tear_down(&fixture);
}

static void what_needs_a_journal_or_a_pause_says_so(void **state)
{
    static const char *const texts[] = {"not interrupted", "no journal", "no journal"};
    struct rpc_status status = RPC_STATUS_INIT;
    struct fixture fixture;
    struct agt_run *run = NULL;
    const struct agt_run_spec spec = {.task = task_text};

    (void)state;
    set_up(&fixture, SOLVE);
    assert_int_equal(agt_runs_start(fixture.service.runs, "uid:1", NULL, &spec, &run, &status), 0);
    wait_until_idle(&fixture);
    for (size_t i = 0; i < CR_ARRAY_SIZE(texts); i++) {
        assert_int_equal(ask_about(&fixture, &about_runs[i], agt_run_id(run), &status),
                         RPC_FAILED_PRECONDITION);
        assert_non_null(strstr(status.message, texts[i]));
    }
    assert_int_equal(ask_about(&fixture, &about_runs[3], agt_run_id(run), &status), RPC_OK);
    assert_int_equal(ask_about(&fixture, &about_runs[3], agt_run_id(run), &status), RPC_NOT_FOUND);
    (void)agt_run_unref(run);
    tear_down(&fixture);
}

/* Its events go on where the other run's ended, as those of another one. */
static void a_run_that_stalled_goes_on_with_a_hint(void **state)
{
    const struct agt_run_spec spec = {
        .task = task_text,
        .verify = CRISOL__AGENT__V1__VERIFICATION_LEVEL__VERIFICATION_LEVEL_EVIDENCE};
    Crisol__Agent__V1__ResumeRunRequest request = CRISOL__AGENT__V1__RESUME_RUN_REQUEST__INIT;
    struct rpc_status status = RPC_STATUS_INIT;
    struct seen seen = {.seq = 0};
    char run_id[33] = "";
    char hint[] = HINT;
    struct fixture fixture;
    struct agt_run *run = NULL;

    (void)state;
    set_up(&fixture, STALL);
    assert_int_equal(agt_runs_start(fixture.service.runs, "uid:1", NULL, &spec, &run, &status), 0);
    wait_until_idle(&fixture);
    assert_int_equal(agt_run_check_hint(run, hint, &seen.seq, &status), 0);
    (void)memccpy(run_id, agt_run_id(run), '\0', sizeof(run_id) - 1);
    request.run_id = run_id;
    request.hint = hint;
    assert_int_equal(rpc_stream_blocking(fixture.channel, &resume_run, &request.base, 60000, -1,
                                         on_event, &seen, &status),
                     RPC_OK);

    assert_int_equal(seen.results, 1);
    assert_int_equal(seen.status, CRISOL__AGENT__V1__RUN_STATUS__RUN_STATUS_SUCCESS);
    assert_string_not_equal(seen.run_id, run_id);
    request.run_id = seen.run_id; /* which passed */
    assert_int_equal(rpc_stream_blocking(fixture.channel, &resume_run, &request.base, 60000, -1,
                                         on_event, &seen, &status),
                     RPC_FAILED_PRECONDITION);
    (void)agt_run_unref(run);
    tear_down(&fixture);
}

/* Calls that end by drain while their runs are held leave nothing behind. */
static void drain_cancels_the_runs_of_live_calls(void **state)
{
    Crisol__Agent__V1__GenerateStreamRequest request =
        CRISOL__AGENT__V1__GENERATE_STREAM_REQUEST__INIT;
    struct slow slow = {.is_open = 1};
    struct rpc_client_handlers handlers = {
        .on_message = on_slow_event, .on_end = on_slow_end, .user = &slow};
    struct rpc_client_call *call = NULL;
    struct rpc_loop *loop = NULL;
    int64_t due_ns = cr_clock_mono_ns() + PATIENCE_NS;
    struct fixture fixture;

    (void)state;
    set_up(&fixture, HOLD);
    request.task = task_text;
    assert_int_equal(rpc_loop_new(&loop, NULL), 0);
    assert_int_equal(rpc_client_start(loop, fixture.channel, &generate_stream, &request.base, 60000,
                                      &handlers, &call, NULL),
                     0);
    while (agt_engine_live_runs(fixture.engine.engine) == 0 && cr_clock_mono_ns() < due_ns)
        (void)poll(NULL, 0, 1);
    assert_false(rpc_server_drain(fixture.server, 1));

    wait_until_idle(&fixture);
    (void)rpc_client_unref(call);
    (void)rpc_loop_free(loop);
    tear_down(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(generate_answers_with_the_result),
        cmocka_unit_test(stream_has_every_state_event_and_ends_with_the_result),
        cmocka_unit_test(slow_client_gets_a_gap_and_still_every_state_event),
        cmocka_unit_test(cancelling_the_call_cancels_the_run),
        cmocka_unit_test(deadline_of_the_client_cancels_the_run),
        cmocka_unit_test(bad_fields_are_named_over_the_wire),
        cmocka_unit_test(missing_key_is_a_failed_precondition),
        cmocka_unit_test(graph_is_described),
        cmocka_unit_test(models_of_a_provider_without_a_list_are_refused),
        cmocka_unit_test(a_run_that_is_not_there_is_told_by_each_method),
        cmocka_unit_test(what_needs_a_journal_or_a_pause_says_so),
        cmocka_unit_test(a_run_that_stalled_goes_on_with_a_hint),
        cmocka_unit_test(drain_cancels_the_runs_of_live_calls),
    };

    return cmocka_run_group_tests(tests, test_rpc_init, test_rpc_fini);
}
