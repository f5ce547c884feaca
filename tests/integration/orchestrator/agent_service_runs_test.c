/* SPDX-License-Identifier: Apache-2.0 */

/* What is asked about the graph, the models, and runs that are there or not. */
#include "common/auto.h"
#include "crisol/agent/v1/agent.pb-c.h"
#include "orchestrator/runs/runs.h"
#include "rpc/status.h"
#include "tests/harness/rpc_group.h"
#include "tests/harness/test.h"
#include "tests/integration/orchestrator/service_fixture.h"

#include <string.h>

static const struct rpc_client_method resume_run = SERVICE_METHOD("ResumeRun", resume_run);
static const struct rpc_client_method describe_graph =
    SERVICE_METHOD("DescribeGraph", describe_graph);

static char task_text[] = "add two numbers";

static void graph_is_described(void **state)
{
    Crisol__Agent__V1__DescribeGraphRequest request =
        CRISOL__AGENT__V1__DESCRIBE_GRAPH_REQUEST__INIT;
    const Crisol__Agent__V1__DescribeGraphResponse *response;
    struct rpc_status status = RPC_STATUS_INIT;
    ProtobufCMessage *message = NULL;
    struct service_fixture fixture;
    char run_id[] = "x";

    (void)state;
    service_fixture_start(&fixture, SERVICE_SOLVE);
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
    service_fixture_stop(&fixture);
}

/* The provider of these tests has no list; tests/integration/…/model_replay_test.c has one. */
static void models_of_a_provider_without_a_list_are_refused(void **state)
{
    static const struct rpc_client_method list_models = SERVICE_METHOD("ListModels", list_models);
    Crisol__Agent__V1__ListModelsRequest request = CRISOL__AGENT__V1__LIST_MODELS_REQUEST__INIT;
    struct rpc_status status = RPC_STATUS_INIT;
    ProtobufCMessage *message = NULL;
    struct service_fixture fixture;

    (void)state;
    service_fixture_start(&fixture, SERVICE_SOLVE);
    assert_int_equal(
        rpc_call_blocking(fixture.channel, &list_models, &request.base, 20000, &message, &status),
        RPC_UNIMPLEMENTED);
    assert_non_null(strstr(status.message, "no list of models"));
    service_fixture_stop(&fixture);
}

/* Each begins with the id of a run, field 1. */
static const struct rpc_client_method about_runs[] = {
    SERVICE_METHOD("ResumeRun", resume_run),
    SERVICE_METHOD("ForkRun", fork_run),
    SERVICE_METHOD("ExportRun", export_run),
    SERVICE_METHOD("DeleteRun", delete_run),
};

static enum rpc_code ask_about(const struct service_fixture *fixture,
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
    struct service_fixture fixture;

    (void)state;
    service_fixture_start(&fixture, SERVICE_SOLVE);
    for (size_t i = 0; i < CR_ARRAY_SIZE(about_runs); i++) {
        struct rpc_status status;

        assert_int_equal(ask_about(&fixture, &about_runs[i], "x", &status), RPC_INVALID_ARGUMENT);
        assert_memory_equal(status.message, "run_id: ", 8);
        assert_int_equal(
            ask_about(&fixture, &about_runs[i], "00000000000000000000000000000001", &status),
            RPC_NOT_FOUND);
    }
    service_fixture_stop(&fixture);
}

static void what_needs_a_journal_or_a_pause_says_so(void **state)
{
    static const char *const texts[] = {"not interrupted", "no journal", "no journal"};
    struct rpc_status status = RPC_STATUS_INIT;
    struct service_fixture fixture;
    struct agt_run *run = NULL;
    const struct agt_run_spec spec = {.task = task_text};

    (void)state;
    service_fixture_start(&fixture, SERVICE_SOLVE);
    assert_int_equal(agt_runs_start(fixture.service.runs, "uid:1", NULL, &spec, &run, &status), 0);
    service_fixture_wait_idle(&fixture);
    for (size_t i = 0; i < CR_ARRAY_SIZE(texts); i++) {
        assert_int_equal(ask_about(&fixture, &about_runs[i], agt_run_id(run), &status),
                         RPC_FAILED_PRECONDITION);
        assert_non_null(strstr(status.message, texts[i]));
    }
    assert_int_equal(ask_about(&fixture, &about_runs[3], agt_run_id(run), &status), RPC_OK);
    assert_int_equal(ask_about(&fixture, &about_runs[3], agt_run_id(run), &status), RPC_NOT_FOUND);
    (void)agt_run_unref(run);
    service_fixture_stop(&fixture);
}

/* Its events go on where the other run's ended, as those of another one. */
static void a_run_that_stalled_goes_on_with_a_hint(void **state)
{
    const struct agt_run_spec spec = {
        .task = task_text,
        .verify = CRISOL__AGENT__V1__VERIFICATION_LEVEL__VERIFICATION_LEVEL_EVIDENCE};
    Crisol__Agent__V1__ResumeRunRequest request = CRISOL__AGENT__V1__RESUME_RUN_REQUEST__INIT;
    struct rpc_status status = RPC_STATUS_INIT;
    struct service_seen seen = {.seq = 0};
    char run_id[33] = "";
    char hint[] = SERVICE_HINT;
    struct service_fixture fixture;
    struct agt_run *run = NULL;

    (void)state;
    service_fixture_start(&fixture, SERVICE_STALL);
    assert_int_equal(agt_runs_start(fixture.service.runs, "uid:1", NULL, &spec, &run, &status), 0);
    service_fixture_wait_idle(&fixture);
    assert_int_equal(agt_run_check_hint(run, hint, &seen.seq, &status), 0);
    (void)memccpy(run_id, agt_run_id(run), '\0', sizeof(run_id) - 1);
    request.run_id = run_id;
    request.hint = hint;
    assert_int_equal(rpc_stream_blocking(fixture.channel, &resume_run, &request.base, 60000, -1,
                                         service_seen_event, &seen, &status),
                     RPC_OK);

    assert_int_equal(seen.results, 1);
    assert_int_equal(seen.status, CRISOL__AGENT__V1__RUN_STATUS__RUN_STATUS_SUCCESS);
    assert_string_not_equal(seen.run_id, run_id);
    request.run_id = seen.run_id; /* which passed */
    assert_int_equal(rpc_stream_blocking(fixture.channel, &resume_run, &request.base, 60000, -1,
                                         service_seen_event, &seen, &status),
                     RPC_FAILED_PRECONDITION);
    (void)agt_run_unref(run);
    service_fixture_stop(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(graph_is_described),
        cmocka_unit_test(models_of_a_provider_without_a_list_are_refused),
        cmocka_unit_test(a_run_that_is_not_there_is_told_by_each_method),
        cmocka_unit_test(what_needs_a_journal_or_a_pause_says_so),
        cmocka_unit_test(a_run_that_stalled_goes_on_with_a_hint),
    };

    return cmocka_run_group_tests(tests, test_rpc_init, test_rpc_fini);
}
