/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/buf.h"
#include "orchestrator/http/shape.h"
#include "tests/harness/test.h"

#include <errno.h>
#include <string.h>

#include <cjson/cJSON.h>

#define RESULT_INIT CRISOL__AGENT__V1__RUN_RESULT__INIT

static char plan_text[] = "1. write \"it\"\n2. test it";
static char task_text[] = "an LRU cache";

static cJSON *shape_of(const Crisol__Agent__V1__RunResult *result)
{
    CR_AUTO_BUF struct cr_buf buf;
    cJSON *root;

    cr_buf_init(&buf, 1 << 20);
    assert_int_equal(agt_shape_write_result(result, &buf), 0);
    assert_null(strpbrk(cr_buf_str(&buf), "\r\n"));
    root = cJSON_ParseWithLengthOpts(cr_buf_str(&buf), buf.size + 1, NULL, true);
    assert_non_null(root);
    return root;
}

static const char *text_at(const cJSON *root, const char *name)
{
    return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(root, name));
}

static void an_empty_result_has_every_member(void **state)
{
    static const char *const members[] = {
        "task",
        "status",
        "iterations",
        "plan",
        "files",
        "execution_result",
        "error_history",
        "final_response",
        "run_id",
        "cause",
        "verification",
        "attempts",
        "model_requested",
        "models_served",
        "warnings",
        "usage",
        "elapsed_ms",
        "receipt",
    };
    const Crisol__Agent__V1__RunResult result = RESULT_INIT;
    cJSON *root = shape_of(&result);

    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(members); i++)
        assert_true(cJSON_HasObjectItem(root, members[i]));
    assert_int_equal(cJSON_GetArraySize(root), CR_ARRAY_SIZE(members));
    assert_true(cJSON_IsNull(cJSON_GetObjectItem(root, "execution_result")));
    assert_true(cJSON_IsArray(cJSON_GetObjectItem(root, "error_history")));
    assert_true(cJSON_IsObject(cJSON_GetObjectItem(root, "files")));
    cJSON_Delete(root);
}

static void the_seed_members_keep_their_shape(void **state)
{
    Crisol__Agent__V1__RunResult result = RESULT_INIT;
    Crisol__Agent__V1__ExecutionResult execution = CRISOL__AGENT__V1__EXECUTION_RESULT__INIT;
    Crisol__Agent__V1__File file = CRISOL__AGENT__V1__FILE__INIT;
    Crisol__Agent__V1__File *files[] = {&file};
    char path[] = "solution.py";
    char text[] = "x = 1\n";
    char error[] = "test_solution.py:14: assert 2 == 1";
    char *errors[] = {error};
    cJSON *root;
    cJSON *inner;

    (void)state;
    file.path = path;
    file.text = text;
    execution.exit_code = 1;
    execution.stdout_text = text;
    execution.duration_seconds = 1.5;
    execution.timed_out = true;
    result.task = task_text;
    result.plan = plan_text;
    result.status = CRISOL__AGENT__V1__RUN_STATUS__RUN_STATUS_FAILED;
    result.cause = CRISOL__AGENT__V1__FAILURE_CAUSE__FAILURE_CAUSE_MAX_ITERATIONS;
    result.iterations = 3;
    result.files = files;
    result.n_files = 1;
    result.execution_result = &execution;
    result.error_history = errors;
    result.n_error_history = 1;
    root = shape_of(&result);

    assert_string_equal(text_at(root, "task"), task_text);
    assert_string_equal(text_at(root, "plan"), plan_text);
    assert_string_equal(text_at(root, "status"), "FAILED");
    assert_string_equal(text_at(root, "cause"), "MAX_ITERATIONS");
    assert_string_equal(text_at(cJSON_GetObjectItem(root, "files"), "solution.py"), text);
    inner = cJSON_GetObjectItem(root, "error_history");
    assert_string_equal(cJSON_GetStringValue(cJSON_GetArrayItem(inner, 0)), error);
    inner = cJSON_GetObjectItem(root, "execution_result");
    assert_int_equal(cJSON_GetObjectItem(inner, "exit_code")->valueint, 1);
    assert_string_equal(text_at(inner, "stdout"), text);
    assert_string_equal(text_at(inner, "stderr"), "");
    assert_true(cJSON_GetObjectItem(inner, "duration_seconds")->valuedouble == 1.5);
    assert_true(cJSON_IsTrue(cJSON_GetObjectItem(inner, "timed_out")));
    assert_true(cJSON_IsFalse(cJSON_GetObjectItem(inner, "success")));
    cJSON_Delete(root);
}

static void a_success_has_no_cause(void **state)
{
    Crisol__Agent__V1__RunResult result = RESULT_INIT;
    Crisol__Agent__V1__Verification verification = CRISOL__AGENT__V1__VERIFICATION__INIT;
    Crisol__Agent__V1__ModelUsage usage = CRISOL__AGENT__V1__MODEL_USAGE__INIT;
    cJSON *root;

    (void)state;
    result.status = CRISOL__AGENT__V1__RUN_STATUS__RUN_STATUS_SUCCESS;
    verification.level = CRISOL__AGENT__V1__VERIFICATION_LEVEL__VERIFICATION_LEVEL_EVIDENCE;
    result.verification = &verification;
    usage.total_tokens = 12;
    result.usage = &usage;
    root = shape_of(&result);

    assert_string_equal(text_at(root, "status"), "SUCCESS");
    assert_true(cJSON_IsNull(cJSON_GetObjectItem(root, "cause")));
    assert_string_equal(text_at(cJSON_GetObjectItem(root, "verification"), "level"), "EVIDENCE");
    assert_int_equal(
        cJSON_GetObjectItem(cJSON_GetObjectItem(root, "usage"), "total_tokens")->valueint, 12);
    assert_int_equal(cJSON_GetObjectItem(cJSON_GetObjectItem(root, "usage"), "calls")->valueint, 0);
    cJSON_Delete(root);
}

static void attempts_carry_their_files(void **state)
{
    Crisol__Agent__V1__RunResult result = RESULT_INIT;
    Crisol__Agent__V1__Attempt attempt = CRISOL__AGENT__V1__ATTEMPT__INIT;
    Crisol__Agent__V1__Attempt *attempts[] = {&attempt, &attempt};
    cJSON *root;
    cJSON *list;

    (void)state;
    attempt.iteration = 2;
    attempt.cause = CRISOL__AGENT__V1__ATTEMPT_CAUSE__ATTEMPT_CAUSE_ASSERTION;
    result.attempts = attempts;
    result.n_attempts = 2;
    root = shape_of(&result);

    list = cJSON_GetObjectItem(root, "attempts");
    assert_int_equal(cJSON_GetArraySize(list), 2);
    assert_string_equal(text_at(cJSON_GetArrayItem(list, 1), "cause"), "ASSERTION");
    assert_true(cJSON_IsFalse(cJSON_GetObjectItem(cJSON_GetArrayItem(list, 1), "passed")));
    cJSON_Delete(root);
}

static void assert_frame(const Crisol__Agent__V1__RunEvent *event, bool is_state,
                         const char *expected_start)
{
    CR_AUTO_BUF struct cr_buf scratch;
    CR_AUTO_BUF struct cr_buf out;

    cr_buf_init(&scratch, 65536);
    cr_buf_init(&out, 65536);
    assert_int_equal(agt_shape_add_event(event, is_state, &scratch, &out), 0);
    if (strncmp(cr_buf_str(&out), expected_start, strlen(expected_start)) != 0)
        fail_msg("got: %s", cr_buf_str(&out));
    assert_string_equal(cr_buf_str(&out) + out.size - 3, "}\n\n");
}

static void events_are_named_by_their_case(void **state)
{
    Crisol__Agent__V1__RunEvent event = CRISOL__AGENT__V1__RUN_EVENT__INIT;
    Crisol__Agent__V1__PlanReady plan = CRISOL__AGENT__V1__PLAN_READY__INIT;
    Crisol__Agent__V1__ModelDelta delta = CRISOL__AGENT__V1__MODEL_DELTA__INIT;

    (void)state;
    plan.plan = plan_text;
    event.seq = 5;
    event.event_case = CRISOL__AGENT__V1__RUN_EVENT__EVENT_PLAN_READY;
    event.plan_ready = &plan;
    assert_frame(&event, true, "id: 5\nevent: plan_ready\ndata: {");
    event.event_case = CRISOL__AGENT__V1__RUN_EVENT__EVENT_MODEL_DELTA;
    event.model_delta = &delta;
    assert_frame(&event, false, "event: model_delta\ndata: {");
}

static void the_last_event_carries_the_object_of_generate(void **state)
{
    Crisol__Agent__V1__RunEvent event = CRISOL__AGENT__V1__RUN_EVENT__INIT;
    Crisol__Agent__V1__RunResult result = RESULT_INIT;

    (void)state;
    result.task = task_text;
    event.seq = 9;
    event.event_case = CRISOL__AGENT__V1__RUN_EVENT__EVENT_RESULT;
    event.result = &result;
    assert_frame(&event, true, "id: 9\nevent: result\ndata: {\"task\":\"an LRU cache\",");
}

static void an_event_without_content_is_refused(void **state)
{
    const Crisol__Agent__V1__RunEvent event = CRISOL__AGENT__V1__RUN_EVENT__INIT;
    CR_AUTO_BUF struct cr_buf scratch;
    CR_AUTO_BUF struct cr_buf out;

    (void)state;
    cr_buf_init(&scratch, 1024);
    cr_buf_init(&out, 1024);
    assert_int_equal(agt_shape_add_event(&event, true, &scratch, &out), -EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_result_has_every_member),
        cmocka_unit_test(the_seed_members_keep_their_shape),
        cmocka_unit_test(a_success_has_no_cause),
        cmocka_unit_test(attempts_carry_their_files),
        cmocka_unit_test(events_are_named_by_their_case),
        cmocka_unit_test(the_last_event_carries_the_object_of_generate),
        cmocka_unit_test(an_event_without_content_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
