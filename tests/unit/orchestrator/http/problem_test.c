/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/buf.h"
#include "orchestrator/http/problem.h"
#include "tests/harness/test.h"

#include <stdio.h>

static void assert_body(const struct agt_problem *problem, const char *expected)
{
    CR_AUTO_BUF struct cr_buf buf;

    cr_buf_init(&buf, 65536);
    assert_int_equal(agt_problem_write(problem, &buf), 0);
    assert_string_equal(cr_buf_str(&buf), expected);
}

static void violations_are_written_as_fastapi_does(void **state)
{
    struct rpc_status status = RPC_STATUS_INIT;
    struct agt_problem problem;

    (void)state;
    rpc_status_add_violation(&status, "task", "must not be empty");
    rpc_status_add_violation(&status, "files[12].path", "has a \"..\"");
    rpc_status_add_violation(&status, "limits.wall_time_ms", "too large");
    agt_problem_from_status(&problem, &status);
    assert_int_equal(problem.http_status, 422);
    assert_body(&problem, "{\"detail\":["
                          "{\"loc\":[\"body\",\"task\"],\"msg\":\"must not be empty\","
                          "\"type\":\"value_error\"},"
                          "{\"loc\":[\"body\",\"files\",12,\"path\"],\"msg\":\"has a \\\"..\\\"\","
                          "\"type\":\"value_error\"},"
                          "{\"loc\":[\"body\",\"limits\",\"wall_time_ms\"],\"msg\":\"too large\","
                          "\"type\":\"value_error\"}]}");
}

static void a_parameter_is_told_as_part_of_the_query(void **state)
{
    struct rpc_status status = RPC_STATUS_INIT;
    struct agt_problem problem;

    (void)state;
    rpc_status_add_violation(&status, "\"a[0].b\"]", "is unknown");
    agt_problem_from_status(&problem, &status);
    problem.place = "query";
    problem.type = "extra_forbidden";
    assert_body(&problem, "{\"detail\":[{\"loc\":[\"query\",\"a[0].b\"],\"msg\":\"is unknown\","
                          "\"type\":\"extra_forbidden\"}]}");
}

static void what_is_not_in_the_body_is_named_by_where_it_is(void **state)
{
    struct rpc_status status = RPC_STATUS_INIT;
    struct agt_problem problem;

    (void)state;
    rpc_status_add_violation(&status, "run_id", "bad");
    rpc_status_add_violation(&status, "page_size", "bad");
    rpc_status_add_violation(&status, "idempotency_key", "bad");
    agt_problem_from_status(&problem, &status);
    assert_body(&problem, "{\"detail\":[{\"loc\":[\"path\",\"run_id\"],\"msg\":\"bad\","
                          "\"type\":\"value_error\"},{\"loc\":[\"query\",\"page_size\"],"
                          "\"msg\":\"bad\",\"type\":\"value_error\"},"
                          "{\"loc\":[\"header\",\"Idempotency-Key\"],\"msg\":\"bad\","
                          "\"type\":\"value_error\"}]}");
}

static void text_that_is_no_json_is_told_so(void **state)
{
    struct rpc_status status = RPC_STATUS_INIT;
    struct agt_problem problem;

    (void)state;
    rpc_status_set(&status, RPC_INVALID_ARGUMENT, "cut at byte 7");
    agt_problem_from_status(&problem, &status);
    assert_body(&problem, "{\"detail\":[{\"loc\":[\"body\"],\"msg\":\"cut at byte 7\","
                          "\"type\":\"json_invalid\"}]}");
}

static void field_names_of_the_caller_stay_text(void **state)
{
    struct rpc_status status = RPC_STATUS_INIT;
    struct agt_problem problem;

    (void)state;
    rpc_status_add_violation(&status, "env[\"}],x\"].12", "bad");
    rpc_status_add_violation(&status, "env[\"\"]", "bad");
    rpc_status_add_violation(&status, "env[\"x", "cut");
    rpc_status_add_violation(&status, "env[\"]", "cut");
    agt_problem_from_status(&problem, &status);
    assert_body(&problem,
                "{\"detail\":[{\"loc\":[\"body\",\"env\",\"}],x\",\"12\"],\"msg\":\"bad\","
                "\"type\":\"value_error\"},{\"loc\":[\"body\",\"env\",\"\"],\"msg\":\"bad\","
                "\"type\":\"value_error\"},{\"loc\":[\"body\",\"env\",\"\\\"x\"],\"msg\":\"cut\","
                "\"type\":\"value_error\"},{\"loc\":[\"body\",\"env\",\"\\\"\"],\"msg\":\"cut\","
                "\"type\":\"value_error\"}]}");
}

static void other_problems_carry_a_sentence_and_a_code(void **state)
{
    struct rpc_status status = RPC_STATUS_INIT;
    struct agt_problem problem;

    (void)state;
    rpc_status_set(&status, RPC_RESOURCE_EXHAUSTED, "the queue is full");
    status.retry_after_ms = 1500;
    (void)snprintf(status.reason, sizeof(status.reason), "QUEUE_FULL");
    agt_problem_from_status(&problem, &status);
    assert_int_equal(problem.http_status, 429);
    assert_int_equal(agt_problem_retry_after_s(&problem), 2);
    assert_body(&problem, "{\"detail\":\"the queue is full\",\"code\":\"RESOURCE_EXHAUSTED\","
                          "\"reason\":\"QUEUE_FULL\",\"retry_after_ms\":1500}");
}

static void codes_become_http_statuses(void **state)
{
    static const struct {
        enum rpc_code code;
        int http_status;
        int retry_after_s;
    } cases[] = {
        {RPC_INVALID_ARGUMENT, 422, 0},   {RPC_FAILED_PRECONDITION, 503, 0},
        {RPC_UNAVAILABLE, 503, 5},        {RPC_CANCELLED, 503, 5},
        {RPC_RESOURCE_EXHAUSTED, 429, 1}, {RPC_DEADLINE_EXCEEDED, 504, 0},
        {RPC_INTERNAL, 500, 0},           {RPC_NOT_FOUND, 404, 0},
        {RPC_UNIMPLEMENTED, 501, 0},      {RPC_UNAUTHENTICATED, 401, 0},
        {RPC_PERMISSION_DENIED, 403, 0},
    };

    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(cases); i++) {
        struct rpc_status status = RPC_STATUS_INIT;
        struct agt_problem problem;

        rpc_status_set(&status, cases[i].code, "x");
        agt_problem_from_status(&problem, &status);
        assert_int_equal(problem.http_status, cases[i].http_status);
        assert_int_equal(agt_problem_retry_after_s(&problem), cases[i].retry_after_s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(violations_are_written_as_fastapi_does),
        cmocka_unit_test(a_parameter_is_told_as_part_of_the_query),
        cmocka_unit_test(what_is_not_in_the_body_is_named_by_where_it_is),
        cmocka_unit_test(text_that_is_no_json_is_told_so),
        cmocka_unit_test(field_names_of_the_caller_stay_text),
        cmocka_unit_test(other_problems_carry_a_sentence_and_a_code),
        cmocka_unit_test(codes_become_http_statuses),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
