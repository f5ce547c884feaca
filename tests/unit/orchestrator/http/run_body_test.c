/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/buf.h"
#include "orchestrator/http/problem.h"
#include "orchestrator/http/run_body.h"
#include "tests/harness/test.h"

#include <string.h>

static void a_full_body_is_read(void **state)
{
    static const char text[] = "{\"task\":\"quicksort\",\"max_iterations\":5,\"model\":\"m\","
                               "\"sandbox_limits\":{\"wall_time_ms\":2000}}";
    Crisol__Agent__V1__GenerateRequest *request = NULL;
    struct agt_problem problem;

    (void)state;
    assert_int_equal(agt_run_body_read(text, strlen(text), &request, &problem), 0);
    assert_string_equal(request->task, "quicksort");
    assert_int_equal(request->max_iterations, 5);
    assert_string_equal(request->model, "m");
    assert_int_equal(request->sandbox_limits->wall_time_ms, 2000);
    crisol__agent__v1__generate_request__free_unpacked(request, NULL);
}

static void iterations_may_be_left_out(void **state)
{
    static const char *const texts[] = {
        "{\"task\":\"x\"}",
        "{\"task\":\"x\",\"max_iterations\":null}",
        "{\"task\":\"x\",\"maxIterations\":2}",
        " \t\n{ \"task\" : \"x\" } ",
    };

    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(texts); i++) {
        Crisol__Agent__V1__GenerateRequest *request = NULL;
        struct agt_problem problem;

        assert_int_equal(agt_run_body_read(texts[i], strlen(texts[i]), &request, &problem), 0);
        crisol__agent__v1__generate_request__free_unpacked(request, NULL);
    }
}

/* Every bad body is a 422 whose JSON holds `expected`. */
static void assert_refused(const char *text, size_t size, const char *expected)
{
    CR_AUTO_BUF struct cr_buf buf;
    Crisol__Agent__V1__GenerateRequest *request = NULL;
    struct agt_problem problem;

    cr_buf_init(&buf, 65536);
    assert_true(agt_run_body_read(text, size, &request, &problem) < 0);
    assert_null(request);
    assert_int_equal(problem.http_status, 422);
    assert_int_equal(agt_problem_write(&problem, &buf), 0);
    if (!strstr(cr_buf_str(&buf), expected))
        fail_msg("%s is answered %s", text, cr_buf_str(&buf));
}

static void bad_bodies_are_refused_by_path(void **state)
{
    static const struct {
        const char *text;
        const char *expected;
    } cases[] = {
        {"", "\"json_invalid\""},
        {"{", "\"json_invalid\""},
        {"{\"task\"", "\"json_invalid\""},
        {"{\"task\":}", "\"json_invalid\""},
        {"[]", "\"detail\":[{\"loc\":[\"body\""},
        {"null", "\"detail\":[{\"loc\":[\"body\""},
        {"{}", "\"loc\":[\"body\",\"task\"]"},
        {"{}", "\"missing\""},
        {"{\"task\":null}", "\"missing\""},
        {"{\"task\":\"x\",\"max_iterations\":0}", "\"loc\":[\"body\",\"max_iterations\"]"},
        {"{\"task\":\"x\",\"maxIterations\":0}", "\"loc\":[\"body\",\"max_iterations\"]"},
        {"{\"task\":\"x\",\"max_iterations\":-1}", "must be 1 to 10; leave it out"},
        {"{\"task\":\"x\",\"max_iterations\":99}", "must be 1 to 10; leave it out"},
        {"{\"task\":7}", "\"loc\":[\"body\",\"task\"]"},
        {"{\"task\":\"x\",\"max_iterations\":\"many\"}", "\"loc\":[\"body\",\"max_iterations\"]"},
        {"{\"task\":\"x\",\"max_iterations\":1.5}", "\"loc\":[\"body\",\"max_iterations\"]"},
        {"{\"task\":\"x\",\"colour\":1}", "colour"},
        {"{\"task\":\"x\",\"task\":\"y\"}", "task"},
        {"{\"task\":\"x\",\"run_id\":\"y\"}", "\"loc\":[\"body\",\"run_id\"]"},
        {"{\"task\":\"x\",\"idempotency_key\":\"y\"}", "\"loc\":[\"body\",\"idempotency_key\"]"},
        {"{\"task\":\"x\"} {}", "\"detail\":[{\"loc\":[\"body\""},
        {"{\"task\":\"\xff\"}", "\"detail\":[{\"loc\":[\"body\""},
        {"{\"task\":\"x\",\"sandbox_limits\":{\"wall_time_ms\":-1}}",
         "\"loc\":[\"body\",\"sandbox_limits\",\"wall_time_ms\"]"},
    };

    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(cases); i++)
        assert_refused(cases[i].text, strlen(cases[i].text), cases[i].expected);
}

static void nul_bytes_end_nothing(void **state)
{
    static const char text[] = "{\"task\":\"x\"}\0{}";

    (void)state;
    assert_refused(text, sizeof(text) - 1, "\"detail\":[{\"loc\":[\"body\"");
}

static void deep_bodies_are_refused(void **state)
{
    CR_AUTO_BUF struct cr_buf text;

    (void)state;
    cr_buf_init(&text, 1 << 20);
    (void)cr_buf_add_str(&text, "{\"task\":");
    for (int i = 0; i < 100000; i++)
        (void)cr_buf_add_char(&text, '[');
    assert_refused(cr_buf_str(&text), text.size, "\"detail\":[{\"loc\":[\"body\"");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_full_body_is_read),
        cmocka_unit_test(iterations_may_be_left_out),
        cmocka_unit_test(bad_bodies_are_refused_by_path),
        cmocka_unit_test(nul_bytes_end_nothing),
        cmocka_unit_test(deep_bodies_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
