/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/buf.h"
#include "common/metrics.h"
#include "orchestrator/meter/meter.h"
#include "tests/harness/test.h"

#include <stdio.h>
#include <string.h>

static struct agt_meter *meter;

static int start(void **state)
{
    (void)state;
    meter = agt_meter_new();
    return meter ? 0 : -1;
}

static int stop(void **state)
{
    (void)state;
    meter = agt_meter_free(meter);
    return 0;
}

static void assert_written(const char *line)
{
    CR_AUTO_BUF struct cr_buf buf;
    struct cr_metrics metrics;
    char whole[256];

    (void)snprintf(whole, sizeof(whole), "\n%s\n", line);
    cr_buf_init(&buf, 1 << 20);
    cr_metrics_begin(&metrics, &buf);
    agt_meter_write(meter, &metrics);
    assert_int_equal(cr_metrics_end(&metrics), 0);
    if (!strstr(cr_buf_str(&buf), whole))
        fail_msg("'%s' is not in:\n%s", line, cr_buf_str(&buf));
}

static void ends_are_counted_by_status_and_cause(void **state)
{
    Crisol__Agent__V1__RunResult result = CRISOL__AGENT__V1__RUN_RESULT__INIT;
    Crisol__Agent__V1__RunEvent event = CRISOL__AGENT__V1__RUN_EVENT__INIT;

    (void)state;
    event.event_case = CRISOL__AGENT__V1__RUN_EVENT__EVENT_RESULT;
    event.result = &result;
    result.status = CRISOL__AGENT__V1__RUN_STATUS__RUN_STATUS_FAILED;
    result.cause = CRISOL__AGENT__V1__FAILURE_CAUSE__FAILURE_CAUSE_MAX_ITERATIONS;
    result.elapsed_ms = 2000;
    agt_meter_note(meter, &event);
    result.status = CRISOL__AGENT__V1__RUN_STATUS__RUN_STATUS_SUCCESS;
    result.cause = CRISOL__AGENT__V1__FAILURE_CAUSE__FAILURE_CAUSE_UNSPECIFIED;
    agt_meter_note(meter, &event);

    assert_written("crisol_runs_ended_total{status=\"failed\"} 1");
    assert_written("crisol_runs_ended_total{status=\"success\"} 1");
    assert_written("crisol_runs_ended_total{status=\"cancelled\"} 0");
    assert_written("crisol_runs_failed_total{cause=\"max_iterations\"} 1");
    assert_written("crisol_run_duration_seconds_bucket{le=\"1\"} 0");
    assert_written("crisol_run_duration_seconds_bucket{le=\"2.5\"} 2");
    assert_written("crisol_run_duration_seconds_sum 4.000000");
}

static void calls_of_the_model_count_their_tokens(void **state)
{
    Crisol__Agent__V1__ModelUsage usage = CRISOL__AGENT__V1__MODEL_USAGE__INIT;
    Crisol__Agent__V1__ModelCall call = CRISOL__AGENT__V1__MODEL_CALL__INIT;
    Crisol__Agent__V1__RunEvent event = CRISOL__AGENT__V1__RUN_EVENT__INIT;

    (void)state;
    event.event_case = CRISOL__AGENT__V1__RUN_EVENT__EVENT_MODEL_CALL;
    event.model_call = &call;
    agt_meter_note(meter, &event); /* the provider told nothing */
    usage.prompt_tokens = 3;
    usage.answer_tokens = 4;
    usage.thought_tokens = 5;
    call.usage = &usage;
    agt_meter_note(meter, &event);

    assert_written("crisol_model_calls_total 2");
    assert_written("crisol_model_tokens_total{kind=\"prompt\"} 3");
    assert_written("crisol_model_tokens_total{kind=\"answer\"} 4");
    assert_written("crisol_model_tokens_total{kind=\"thought\"} 5");
    assert_written("crisol_model_call_duration_seconds_count 2");
}

static void executions_are_counted_by_verdict(void **state)
{
    Crisol__Sandbox__V1__Verdict verdict = CRISOL__SANDBOX__V1__VERDICT__INIT;
    Crisol__Sandbox__V1__Timing timing = CRISOL__SANDBOX__V1__TIMING__INIT;
    Crisol__Sandbox__V1__ExecuteResult result = CRISOL__SANDBOX__V1__EXECUTE_RESULT__INIT;
    Crisol__Agent__V1__SandboxResult ended = CRISOL__AGENT__V1__SANDBOX_RESULT__INIT;
    Crisol__Agent__V1__RunEvent event = CRISOL__AGENT__V1__RUN_EVENT__INIT;

    (void)state;
    verdict.code = CRISOL__SANDBOX__V1__VERDICT_CODE__VERDICT_CODE_SANDBOX_LOST;
    timing.run_us = 12000;
    result.verdict = &verdict;
    result.timing = &timing;
    event.event_case = CRISOL__AGENT__V1__RUN_EVENT__EVENT_SANDBOX_RESULT;
    event.sandbox_result = &ended;
    agt_meter_note(meter, &event); /* without a result */
    ended.result = &result;
    agt_meter_note(meter, &event);
    verdict.code = (Crisol__Sandbox__V1__VerdictCode)1000; /* of a newer sandboxd */
    agt_meter_note(meter, &event);

    assert_written("crisol_sandbox_executions_total{verdict=\"sandbox_lost\"} 1");
    assert_written("crisol_sandbox_execution_duration_seconds_count 2");
    assert_written("crisol_sandbox_queue_duration_seconds_bucket{le=\"0.005\"} 2");
}

static void judgements_and_checks_are_counted(void **state)
{
    Crisol__Agent__V1__Evaluation evaluation = CRISOL__AGENT__V1__EVALUATION__INIT;
    Crisol__Agent__V1__VerificationCheck check = CRISOL__AGENT__V1__VERIFICATION_CHECK__INIT;
    Crisol__Agent__V1__RunEvent event = CRISOL__AGENT__V1__RUN_EVENT__INIT;

    (void)state;
    event.event_case = CRISOL__AGENT__V1__RUN_EVENT__EVENT_EVALUATION;
    event.evaluation = &evaluation;
    agt_meter_note(meter, &event);
    evaluation.cause = CRISOL__AGENT__V1__ATTEMPT_CAUSE__ATTEMPT_CAUSE_VACUOUS_TESTS;
    agt_meter_note(meter, &event);
    event.event_case = CRISOL__AGENT__V1__RUN_EVENT__EVENT_VERIFICATION_CHECK;
    event.verification_check = &check;
    check.outcome = CRISOL__AGENT__V1__CHECK_OUTCOME__CHECK_OUTCOME_SHOWN;
    agt_meter_note(meter, &event);

    assert_written("crisol_attempts_total{cause=\"none\"} 1");
    assert_written("crisol_attempts_total{cause=\"vacuous_tests\"} 1");
    assert_written("crisol_verification_checks_total{outcome=\"shown\"} 1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(ends_are_counted_by_status_and_cause, start, stop),
        cmocka_unit_test_setup_teardown(calls_of_the_model_count_their_tokens, start, stop),
        cmocka_unit_test_setup_teardown(executions_are_counted_by_verdict, start, stop),
        cmocka_unit_test_setup_teardown(judgements_and_checks_are_counted, start, stop),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
