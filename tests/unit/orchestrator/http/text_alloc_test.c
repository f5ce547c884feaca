/* SPDX-License-Identifier: Apache-2.0 */
#include "common/buf.h"
#include "orchestrator/http/execute_answer.h"
#include "orchestrator/http/problem.h"
#include "orchestrator/http/run_body.h"
#include "orchestrator/http/shape.h"
#include "tests/harness/alloc.h"
#include "tests/harness/test.h"

#include <string.h>

/* More than any of these needs. */
#define ALLOCATIONS_MAX 200

/* Runs `work` with every allocation failing in turn, until it gets by without: then it must have
 * succeeded, and before never. */
static void fail_each(int (*work)(void))
{
    for (int n = 0; n < ALLOCATIONS_MAX; n++) {
        int r;

        test_fail_alloc(n);
        r = work();
        if (!test_stop_alloc()) {
            assert_int_equal(r, 0);
            return;
        }
        assert_true(r < 0);
    }
    fail_msg("more than %d allocations", ALLOCATIONS_MAX);
}

static int write_result(void)
{
    static char text[5000];
    Crisol__Agent__V1__RunResult result = CRISOL__AGENT__V1__RUN_RESULT__INIT;
    Crisol__Agent__V1__ExecutionResult execution = CRISOL__AGENT__V1__EXECUTION_RESULT__INIT;
    CR_AUTO_BUF struct cr_buf buf = {0};

    memset(text, 'x', sizeof(text) - 1);
    text[100] = '\xff'; /* takes the way of ill-formed text */
    cr_buf_init(&buf, 1 << 20);
    execution.stdout_text = text;
    result.execution_result = &execution;
    return agt_shape_write_result(&result, &buf);
}

static void results_survive_failing_allocations(void **state)
{
    (void)state;
    fail_each(write_result);
}

static int write_problem(void)
{
    struct rpc_status status = RPC_STATUS_INIT;
    struct agt_problem problem;
    CR_AUTO_BUF struct cr_buf buf = {0};

    cr_buf_init(&buf, 1 << 20);
    rpc_status_add_violation(&status, "files[1].path", "bad");
    agt_problem_from_status(&problem, &status);
    return agt_problem_write(&problem, &buf);
}

static void problems_survive_failing_allocations(void **state)
{
    (void)state;
    fail_each(write_problem);
}

static int add_event(void)
{
    Crisol__Sandbox__V1__ExecuteResponse event = CRISOL__SANDBOX__V1__EXECUTE_RESPONSE__INIT;
    Crisol__Sandbox__V1__Output output = CRISOL__SANDBOX__V1__OUTPUT__INIT;
    CR_AUTO_BUF struct cr_buf scratch = {0};
    CR_AUTO_BUF struct cr_buf out = {0};
    uint8_t data[] = {0xff, 'a'};

    cr_buf_init(&scratch, 1 << 20);
    cr_buf_init(&out, 1 << 20);
    output.data.data = data;
    output.data.len = sizeof(data);
    event.event_case = CRISOL__SANDBOX__V1__EXECUTE_RESPONSE__EVENT_OUTPUT;
    event.output = &output;
    return agt_execute_add_event(&event, &scratch, &out);
}

static void events_survive_failing_allocations(void **state)
{
    (void)state;
    fail_each(add_event);
}

/* cJSON allocates for itself, too; a text that it could not hold is refused, never let in. */
static int read_body(void)
{
    static const char text[] = "{\"task\":\"x\",\"max_iterations\":2,"
                               "\"sandbox_limits\":{\"wall_time_ms\":1000}}";
    Crisol__Agent__V1__GenerateRequest *request = NULL;
    struct agt_problem problem = {0};
    int r = agt_run_body_read(text, strlen(text), &request, &problem);

    if (r < 0) {
        assert_null(request);
        assert_true(problem.http_status >= 400);
        return r;
    }
    crisol__agent__v1__generate_request__free_unpacked(request, NULL);
    return 0;
}

static void bodies_survive_failing_allocations(void **state)
{
    (void)state;
    fail_each(read_body);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(results_survive_failing_allocations),
        cmocka_unit_test(problems_survive_failing_allocations),
        cmocka_unit_test(events_survive_failing_allocations),
        cmocka_unit_test(bodies_survive_failing_allocations),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
