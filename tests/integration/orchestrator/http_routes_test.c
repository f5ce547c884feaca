/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/buf.h"
#include "tests/harness/test.h"
#include "tests/integration/orchestrator/http_client.h"
#include "tests/integration/orchestrator/http_fixture.h"

#include <stdio.h>
#include <string.h>

#include <cjson/cJSON.h>

static struct http_fixture fixture;

static int start(void **state)
{
    const struct agt_http_options options = {
        .is_model_configured = true,
        .version = "1.2.3",
        .allowed_origins = "https://pages.example",
    };

    (void)state;
    http_fixture_start(&fixture, &options);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    return http_fixture_stop(&fixture, 1000) ? 0 : -1;
}

static void assert_has(const struct cr_buf *answer, const char *needle)
{
    if (!strstr(cr_buf_str(answer), needle))
        fail_msg("no '%s' in: %s", needle, cr_buf_str(answer));
}

static void health_has_the_four_members_of_the_original(void **state)
{
    CR_AUTO_BUF struct cr_buf answer;
    cJSON *root;

    (void)state;
    cr_buf_init(&answer, 1 << 20);
    assert_int_equal(client_get(fixture.port, "/api/v1/health", &answer), 200);
    root = client_json(&answer);
    assert_string_equal(client_text(root, "status"), "degraded");
    assert_true(cJSON_IsFalse(cJSON_GetObjectItem(root, "docker_available")));
    assert_true(cJSON_IsTrue(cJSON_GetObjectItem(root, "gemini_configured")));
    assert_string_equal(client_text(root, "version"), "1.2.3");
    assert_true(cJSON_IsFalse(cJSON_GetObjectItem(root, "sandbox_available")));
    assert_true(cJSON_IsNull(cJSON_GetObjectItem(root, "backend")));
    cJSON_Delete(root);
}

static void probes_tell_alive_from_ready(void **state)
{
    CR_AUTO_BUF struct cr_buf answer;

    (void)state;
    cr_buf_init(&answer, 1 << 20);
    assert_int_equal(client_get(fixture.port, "/livez", &answer), 200);
    assert_string_equal(client_body(&answer), "{\"status\":\"ok\"}");
    assert_int_equal(client_get(fixture.port, "/readyz", &answer), 503);
    assert_has(&answer, "sandboxd does not answer");
    assert_has(&answer, "Retry-After: ");
}

static void runtimes_without_sandboxd_are_unavailable(void **state)
{
    CR_AUTO_BUF struct cr_buf answer;

    (void)state;
    cr_buf_init(&answer, 1 << 20);
    assert_int_equal(client_get(fixture.port, "/api/v1/runtimes", &answer), 503);
    assert_has(&answer, "\"code\":\"UNAVAILABLE\"");
}

static void the_index_names_the_routes(void **state)
{
    CR_AUTO_BUF struct cr_buf answer;

    (void)state;
    cr_buf_init(&answer, 1 << 20);
    assert_int_equal(client_get(fixture.port, "/?x=1", &answer), 200);
    assert_has(&answer, "/api/v1/execute");
    assert_int_equal(client_get(fixture.port, "/doc", &answer), 404);
    assert_has(&answer, "GET / names");
}

static void the_interface_describes_itself(void **state)
{
    CR_AUTO_BUF struct cr_buf answer;
    cJSON *root;

    (void)state;
    cr_buf_init(&answer, 1 << 20);
    for (int i = 0; i < 2; i++) { /* it is kept after the first time */
        assert_int_equal(client_get(fixture.port, "/openapi.json", &answer), 200);
        root = client_json(&answer);
        assert_string_equal(client_text(root, "openapi"), "3.1.0");
        assert_string_equal(client_text(cJSON_GetObjectItem(root, "info"), "version"), "1.2.3");
        cJSON_Delete(root);
    }
}

static void the_page_loads_nothing_from_elsewhere(void **state)
{
    CR_AUTO_BUF struct cr_buf answer;

    (void)state;
    cr_buf_init(&answer, 1 << 20);
    assert_int_equal(client_get(fixture.port, "/docs", &answer), 200);
    assert_has(&answer, "\r\nContent-Type: text/html; charset=utf-8\r\n");
    assert_has(&answer, "\r\nContent-Security-Policy: default-src 'none'; script-src 'self';");
    assert_null(strstr(client_body(&answer), "//"));
    assert_int_equal(client_get(fixture.port, "/docs/page.css", &answer), 200);
    assert_has(&answer, "\r\nContent-Type: text/css; charset=utf-8\r\n");
    assert_null(strstr(client_body(&answer), "//"));
    assert_int_equal(client_get(fixture.port, "/docs/page.js", &answer), 200);
    assert_has(&answer, "\r\nContent-Type: text/javascript; charset=utf-8\r\n");
    assert_null(strstr(client_body(&answer), "://"));
    assert_null(strstr(client_body(&answer), "innerHTML"));
}

static void metrics_count_what_was_asked(void **state)
{
    CR_AUTO_BUF struct cr_buf answer;

    (void)state;
    cr_buf_init(&answer, 1 << 20);
    (void)client_get(fixture.port, "/livez", &answer);
    (void)client_get(fixture.port, "/nothing", &answer);
    assert_int_equal(client_get(fixture.port, "/metrics", &answer), 200);
    assert_has(&answer, "\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n");
    assert_has(&answer, "\ncrisol_build_info{version=\"1.2.3\"} 1\n");
    assert_has(&answer, "\ncrisol_runs_live 0\n");
    assert_has(&answer, "{route=\"/livez\",method=\"GET\",code=\"2xx\"} 1\n");
    assert_has(&answer, "{route=\"none\",method=\"none\",code=\"4xx\"} 1\n");
    assert_has(&answer, "\nprocess_cpu_seconds_total ");
}

#define PREFLIGHT(origin)                                                                          \
    "OPTIONS /api/v1/generate HTTP/1.1\r\nHost: localhost\r\nOrigin: " origin                      \
    "\r\nAccess-Control-Request-Method: POST\r\nConnection: close\r\n\r\n"

static void pages_of_named_origins_may_ask(void **state)
{
    CR_AUTO_BUF struct cr_buf answer;

    (void)state;
    cr_buf_init(&answer, 1 << 20);
    assert_int_equal(client_request(fixture.port, PREFLIGHT("https://pages.example"), &answer),
                     204);
    assert_has(&answer, "\r\nAccess-Control-Allow-Origin: https://pages.example\r\n");
    assert_has(&answer, "\r\nAccess-Control-Allow-Methods: POST, OPTIONS\r\n");
    assert_has(&answer, "\r\nAccess-Control-Allow-Headers: Authorization, Content-Type,");
    assert_has(&answer, "\r\nVary: Origin\r\n");
    /* Errors, too: a page has to be able to tell what is wrong. */
    assert_int_equal(client_post(fixture.port, "/api/v1/generate", "{}",
                                 "Origin: https://pages.example\r\n", &answer),
                     422);
    assert_has(&answer, "\r\nAccess-Control-Allow-Origin: https://pages.example\r\n");
    assert_null(strstr(cr_buf_str(&answer), "Access-Control-Allow-Credentials"));
    assert_int_equal(client_request(fixture.port, PREFLIGHT("https://evil.example"), &answer), 204);
    assert_null(strstr(cr_buf_str(&answer), "Access-Control"));
}

static void runs_without_a_journal_cannot_be_exported(void **state)
{
    CR_AUTO_BUF struct cr_buf answer;
    char path[96];
    cJSON *root;

    (void)state;
    cr_buf_init(&answer, 1 << 20);
    assert_int_equal(client_post(fixture.port, "/api/v1/runs", "{\"task\":\"quick\"}", "", &answer),
                     202);
    root = client_json(&answer);
    (void)snprintf(path, sizeof(path), "/api/v1/runs/%s/export", client_text(root, "run_id"));
    cJSON_Delete(root);
    assert_int_equal(client_get(fixture.port, path, &answer), 409);
    assert_has(&answer, "keeps no journal");
    assert_int_equal(client_get(fixture.port, "/api/v1/runs/x/export", &answer), 422);
    assert_int_equal(client_get(fixture.port, "/api/v1/runs/x/receipt", &answer), 422);
}

static void an_id_that_is_none_is_named_by_where_it_stands(void **state)
{
    CR_AUTO_BUF struct cr_buf answer;

    (void)state;
    cr_buf_init(&answer, 1 << 20);
    assert_int_equal(client_get(fixture.port, "/api/v1/runs/x", &answer), 422);
    assert_has(&answer, "\"loc\":[\"path\",\"run_id\"]");
    assert_int_equal(client_get(fixture.port, "/api/v1/graph?run_id=x", &answer), 422);
    assert_has(&answer, "\"loc\":[\"query\",\"run_id\"]");
    assert_int_equal(
        client_post(fixture.port, "/api/v1/execute", "{\"run_id\":\"x\"}", "", &answer), 422);
    assert_has(&answer, "\"loc\":[\"body\",\"run_id\"]");
}

static void every_answer_has_the_safe_headers(void **state)
{
    static const char *const paths[] = {"/livez", "/nothing", "/readyz"};
    CR_AUTO_BUF struct cr_buf answer;

    (void)state;
    cr_buf_init(&answer, 1 << 20);
    for (size_t i = 0; i < CR_ARRAY_SIZE(paths); i++) {
        (void)client_get(fixture.port, paths[i], &answer);
        assert_has(&answer, "\r\nX-Content-Type-Options: nosniff\r\n");
        assert_has(&answer, "\r\nContent-Security-Policy: default-src 'none'");
        assert_has(&answer, "\r\nCache-Control: no-store\r\n");
        assert_has(&answer, "\r\nContent-Type: application/json\r\n");
        assert_null(strstr(cr_buf_str(&answer), "Access-Control"));
    }
}

static void generate_answers_the_shape_of_the_original(void **state)
{
    CR_AUTO_BUF struct cr_buf answer;
    cJSON *root;

    (void)state;
    cr_buf_init(&answer, 1 << 20);
    assert_int_equal(client_post(fixture.port, "/api/v1/generate",
                                 "{\"task\":\"quick\",\"max_iterations\":3}", "", &answer),
                     200);
    root = client_json(&answer);
    assert_string_equal(client_text(root, "task"), "the task");
    assert_string_equal(client_text(root, "status"), "SUCCESS");
    assert_int_equal(cJSON_GetObjectItem(root, "iterations")->valueint, 2);
    assert_true(cJSON_IsObject(cJSON_GetObjectItem(root, "files")));
    cJSON_Delete(root);
}

static void refused_runs_have_a_status_and_a_sentence(void **state)
{
    static const struct {
        const char *body;
        int status;
        const char *needle;
    } cases[] = {
        {"{\"task\":\"\"}", 422, "{\"loc\":[\"body\",\"task\"],\"msg\":\"must not be empty\""},
        {"{}", 422, "\"type\":\"missing\""},
        {"{\"task\":\"x\",\"max_iterations\":0}", 422, "[\"body\",\"max_iterations\"]"},
        {"{\"task\"", 422, "\"json_invalid\""},
        {"{\"task\":\"no key\"}", 503, "set GEMINI_API_KEY"},
        {"{\"task\":\"full\"}", 429, "Retry-After: 1\r\n"},
        {"{\"task\":\"draining\"}", 503, "Retry-After: 5\r\n"},
    };
    CR_AUTO_BUF struct cr_buf answer;

    (void)state;
    cr_buf_init(&answer, 1 << 20);
    for (size_t i = 0; i < CR_ARRAY_SIZE(cases); i++) {
        assert_int_equal(client_post(fixture.port, "/api/v1/generate", cases[i].body, "", &answer),
                         cases[i].status);
        assert_has(&answer, cases[i].needle);
        assert_int_equal(client_post(fixture.port, "/api/v1/stream", cases[i].body, "", &answer),
                         cases[i].status);
        assert_has(&answer, cases[i].needle);
    }
}

static int execute(const char *code, const char *more_headers, struct cr_buf *answer)
{
    char body[128];

    (void)snprintf(body, sizeof(body), "{\"runtime\":\"python\",\"code\":\"%s\"}", code);
    return client_post(fixture.port, "/api/v1/execute", body, more_headers, answer);
}

static void execute_answers_result_and_output(void **state)
{
    CR_AUTO_BUF struct cr_buf answer;
    cJSON *root;

    (void)state;
    cr_buf_init(&answer, 1 << 20);
    assert_int_equal(execute("ok", "", &answer), 200);
    root = client_json(&answer);
    assert_string_equal(client_text(root, "stdout"), "4\n");
    assert_string_equal(client_text(root, "stderr"), "warn\n");
    assert_string_equal(client_text(cJSON_GetObjectItem(root, "result"), "summary"), "OK: exit 0");
    cJSON_Delete(root);
    assert_int_equal(execute("binary", "", &answer), 200);
    assert_has(&answer, "\"stdout_base64\":\"//4=\"");
}

static void executions_that_fail_have_a_status(void **state)
{
    static const char events[] = "Accept: text/event-stream\r\n";

    static const struct {
        const char *code;
        int status;
        const char *needle;
    } cases[] = {
        {"full", 429, "Retry-After: 3\r\n"},
        {"bad", 422, "{\"loc\":[\"body\",\"files\",0,\"path\"],\"msg\":\"must be relative\""},
        {"none", 500, "\"code\":\"INTERNAL\""},
        {"down", 503, "sandboxd cannot be reached"},
    };
    CR_AUTO_BUF struct cr_buf answer;

    (void)state;
    cr_buf_init(&answer, 1 << 20);
    for (size_t i = 0; i < CR_ARRAY_SIZE(cases); i++) {
        assert_int_equal(execute(cases[i].code, "", &answer), cases[i].status);
        assert_has(&answer, cases[i].needle);
        assert_int_equal(execute(cases[i].code, events, &answer), cases[i].status);
        assert_has(&answer, cases[i].needle);
    }
    assert_int_equal(execute("late", "", &answer), 503);
    assert_has(&answer, "sandboxd went away");
}

static void execute_refuses_what_is_no_request(void **state)
{
    CR_AUTO_BUF struct cr_buf answer;

    (void)state;
    cr_buf_init(&answer, 1 << 20);
    assert_int_equal(client_post(fixture.port, "/api/v1/execute", "[1]", "", &answer), 422);
    assert_int_equal(client_post(fixture.port, "/api/v1/execute",
                                 "{\"runtime\":\"python\",\"limits\":{\"processes\":-1}}", "",
                                 &answer),
                     422);
    assert_has(&answer, "\"loc\":[\"body\",\"limits\",\"processes\"]");
}

static void large_output_is_cut_and_said(void **state)
{
    CR_AUTO_BUF struct cr_buf answer;

    (void)state;
    cr_buf_init(&answer, (size_t)128 << 20);
    assert_int_equal(execute("flood", "", &answer), 200);
    assert_has(&answer, "\"is_cut\":true");
}

static void head_and_options_are_answered_without_a_body(void **state)
{
    CR_AUTO_BUF struct cr_buf answer;

    (void)state;
    cr_buf_init(&answer, 1 << 20);
    assert_int_equal(client_request(fixture.port,
                                    "HEAD /livez HTTP/1.1\r\nHost: localhost\r\n"
                                    "Connection: close\r\n\r\n",
                                    &answer),
                     200);
    assert_string_equal(client_body(&answer), "");
    assert_int_equal(client_request(fixture.port,
                                    "OPTIONS /api/v1/generate HTTP/1.1\r\nHost: localhost\r\n"
                                    "Connection: close\r\n\r\n",
                                    &answer),
                     204);
    assert_has(&answer, "Allow: POST, OPTIONS\r\n");
    assert_null(strstr(cr_buf_str(&answer), "Access-Control"));
}

static void wrong_methods_are_refused_with_allow(void **state)
{
    CR_AUTO_BUF struct cr_buf answer;

    (void)state;
    cr_buf_init(&answer, 1 << 20);
    assert_int_equal(client_get(fixture.port, "/api/v1/generate", &answer), 405);
    assert_has(&answer, "Allow: POST, OPTIONS\r\n");
    assert_int_equal(client_post(fixture.port, "/livez", "{}", "", &answer), 405);
    assert_has(&answer, "Allow: GET, HEAD, OPTIONS\r\n");
}

static void requests_follow_each_other_on_one_connection(void **state)
{
    static const char request[] = "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n";
    static const char post[] =
        "POST /api/v1/generate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        "Transfer-Encoding: chunked\r\n\r\n7\r\n{\"task\"\r\n9\r\n:\"quick\"}\r\n0\r\n\r\n";
    CR_AUTO_CLOSE int fd = client_connect(fixture.port);
    CR_AUTO_BUF struct cr_buf answer;

    (void)state;
    cr_buf_init(&answer, 1 << 20);
    for (int i = 0; i < 20; i++) {
        client_send_str(fd, request);
        client_read_until(fd, &answer, "{\"status\":\"ok\"}");
        cr_buf_clear(&answer);
    }
    client_send_str(fd, post);
    client_read_until(fd, &answer, "\"receipt\":null}");
    cr_buf_clear(&answer);
    client_send_str(fd, request);
    client_read_until(fd, &answer, "{\"status\":\"ok\"}");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(health_has_the_four_members_of_the_original, start, stop),
        cmocka_unit_test_setup_teardown(probes_tell_alive_from_ready, start, stop),
        cmocka_unit_test_setup_teardown(runtimes_without_sandboxd_are_unavailable, start, stop),
        cmocka_unit_test_setup_teardown(the_index_names_the_routes, start, stop),
        cmocka_unit_test_setup_teardown(the_interface_describes_itself, start, stop),
        cmocka_unit_test_setup_teardown(the_page_loads_nothing_from_elsewhere, start, stop),
        cmocka_unit_test_setup_teardown(metrics_count_what_was_asked, start, stop),
        cmocka_unit_test_setup_teardown(pages_of_named_origins_may_ask, start, stop),
        cmocka_unit_test_setup_teardown(runs_without_a_journal_cannot_be_exported, start, stop),
        cmocka_unit_test_setup_teardown(an_id_that_is_none_is_named_by_where_it_stands, start,
                                        stop),
        cmocka_unit_test_setup_teardown(every_answer_has_the_safe_headers, start, stop),
        cmocka_unit_test_setup_teardown(generate_answers_the_shape_of_the_original, start, stop),
        cmocka_unit_test_setup_teardown(refused_runs_have_a_status_and_a_sentence, start, stop),
        cmocka_unit_test_setup_teardown(execute_answers_result_and_output, start, stop),
        cmocka_unit_test_setup_teardown(executions_that_fail_have_a_status, start, stop),
        cmocka_unit_test_setup_teardown(execute_refuses_what_is_no_request, start, stop),
        cmocka_unit_test_setup_teardown(large_output_is_cut_and_said, start, stop),
        cmocka_unit_test_setup_teardown(head_and_options_are_answered_without_a_body, start, stop),
        cmocka_unit_test_setup_teardown(wrong_methods_are_refused_with_allow, start, stop),
        cmocka_unit_test_setup_teardown(requests_follow_each_other_on_one_connection, start, stop),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
