/* SPDX-License-Identifier: Apache-2.0 */

/* Runs over HTTP, on the real engine. */
#include "common/auto.h"
#include "orchestrator/graph/engine.h"
#include "orchestrator/http/server.h"
#include "tests/harness/double_store.h"
#include "tests/harness/rpc_group.h"
#include "tests/harness/test.h"
#include "tests/integration/orchestrator/http_client.h"
#include "tests/integration/orchestrator/http_house.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cjson/cJSON.h>

static struct http_house house;

static int start(void **state)
{
    (void)state;
    http_house_start(&house, NULL, NULL, NULL, true);
    return 0;
}

static int start_durable(void **state)
{
    (void)state;
    http_house_start(&house, double_store_new(), NULL, NULL, true);
    return 0;
}

static void hold(void *user, const struct agt_model_request *request, struct double_answer *answer)
{
    (void)user;
    (void)request;
    answer->is_held = true;
}

static int start_held(void **state)
{
    (void)state;
    http_house_start(&house, NULL, hold, NULL, true);
    return 0;
}

static void fail_tests(void *user, const Crisol__Sandbox__V1__ExecuteRequest *request,
                       struct double_execution *execution)
{
    (void)user;
    (void)request;
    execution->exit_code = 1;
    execution->failed = 1;
    execution->passed = 2;
}

static int start_failing(void **state)
{
    (void)state;
    http_house_start(&house, NULL, NULL, fail_tests, true);
    return 0;
}

#define HINT "Mind the carry."

#define FILES(more)                                                                                \
    "````python path=test_solution.py\nfrom solution import add\n\n\ndef test_add():\n"            \
    "    assert add(1, 1) == 2\n````\n\n````python path=solution.py\n"                             \
    "def add(a, b):\n    return a + b" more "\n````\n"

/* The same code again, until somebody says what to do. */
static void write_until_told(void *user, const struct agt_model_request *request,
                             struct double_answer *answer)
{
    double_solve(user, request, answer);
    if (strcmp(request->purpose, "plan") != 0)
        answer->text = strstr(request->prompt, HINT) ? FILES(" + 0") : FILES("");
}

static void fail_until_told(void *user, const Crisol__Sandbox__V1__ExecuteRequest *request,
                            struct double_execution *execution)
{
    double_pass(user, request, execution);
    if (!strstr(request->files[0]->text, " + 0"))
        fail_tests(user, request, execution);
}

static int start_stalling(void **state)
{
    (void)state;
    http_house_start(&house, double_store_new(), write_until_told, fail_until_told, true);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    return http_house_stop(&house) ? 0 : -1;
}

static void a_task_becomes_code(void **state)
{
    CR_AUTO_BUF struct cr_buf answer;
    cJSON *root;

    (void)state;
    cr_buf_init(&answer, 1 << 20);
    assert_int_equal(
        client_post(house.port, "/api/v1/generate", "{\"task\":\"a cache\"}", "", &answer), 200);
    root = client_json(&answer);
    assert_string_equal(client_text(root, "task"), "a cache");
    assert_string_equal(client_text(root, "status"), "SUCCESS");
    assert_int_equal(cJSON_GetObjectItem(root, "iterations")->valueint, 1);
    assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(root, "files")), 2);
    assert_string_equal(client_text(cJSON_GetObjectItem(root, "verification"), "level"), "STUBS");
    assert_true(cJSON_IsTrue(
        cJSON_GetObjectItem(cJSON_GetObjectItem(root, "execution_result"), "success")));
    assert_int_equal(strlen(client_text(root, "run_id")), 32);
    cJSON_Delete(root);
}

static void a_run_that_fails_is_an_answer(void **state)
{
    CR_AUTO_BUF struct cr_buf answer;
    cJSON *root;

    (void)state;
    cr_buf_init(&answer, 1 << 20);
    assert_int_equal(client_post(house.port, "/api/v1/generate",
                                 "{\"task\":\"a cache\",\"max_iterations\":1}", "", &answer),
                     200);
    root = client_json(&answer);
    assert_string_equal(client_text(root, "status"), "FAILED");
    assert_string_equal(client_text(root, "cause"), "MAX_ITERATIONS");
    assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(root, "error_history")), 1);
    assert_int_equal(
        cJSON_GetObjectItem(cJSON_GetObjectItem(root, "execution_result"), "exit_code")->valueint,
        1);
    cJSON_Delete(root);
}

/* Ids count from 1 without a gap up to the result, which is last. */
static void a_stream_numbers_every_state_event(void **state)
{
    CR_AUTO_BUF struct cr_buf answer;
    const char *at;
    long expected = 1;

    (void)state;
    cr_buf_init(&answer, 1 << 20);
    assert_int_equal(
        client_post(house.port, "/api/v1/stream", "{\"task\":\"a cache\"}", "", &answer), 200);
    at = cr_buf_str(&answer);
    for (at = strstr(at, "\nid: "); at; at = strstr(at + 1, "\nid: "))
        assert_int_equal(strtol(at + 5, NULL, 10), expected++);
    assert_true(expected > 10);
    assert_non_null(strstr(cr_buf_str(&answer), "id: 1\nevent: run_started\n"));
    at = strstr(cr_buf_str(&answer), "\nevent: result\n");
    assert_non_null(at);
    assert_null(strstr(at + 1, "\nevent: "));
}

/* The run, or the newest of the list. */
struct awaited {
    char path[96];
    const char *status;
};

static bool has_status(void *user)
{
    const struct awaited *awaited = user;
    char member[64];
    struct cr_buf answer;
    bool is_true;

    (void)snprintf(member, sizeof(member), "\"status\":\"%s\"", awaited->status);
    cr_buf_init(&answer, 1 << 20);
    is_true = client_get(house.port, awaited->path, &answer) == 200 &&
              strstr(client_body(&answer), member);
    cr_buf_done(&answer);
    return is_true;
}

/* The store takes nothing for longer than an answer waits; then it does. */
static void an_answer_waits_for_the_store_and_not_for_ever(void **state)
{
    struct awaited awaited = {"/api/v1/runs", "SUCCESS"};
    CR_AUTO_BUF struct cr_buf answer;

    (void)state;
    cr_buf_init(&answer, 1 << 20);
    double_store_hold(house.store, true);
    assert_int_equal(client_post(house.port, awaited.path, "{\"task\":\"a cache\"}", "", &answer),
                     504);
    assert_non_null(strstr(client_body(&answer), "\"code\":\"DEADLINE_EXCEEDED\""));
    assert_non_null(strstr(client_body(&answer), "look at the runs"));
    double_store_hold(house.store, false);
    assert_true(eventually(has_status, &awaited)); /* it came about all the same */
}

static void taking_up_waits_for_the_store_and_not_for_ever(void **state)
{
    static const char body[] = "{\"task\":\"a cache\",\"interrupt_after\":[\"PLANNER\"]}";
    struct awaited awaited = {.status = "INTERRUPTED"};
    CR_AUTO_BUF struct cr_buf answer;
    char path[112];
    cJSON *root;

    (void)state;
    cr_buf_init(&answer, 1 << 20);
    assert_int_equal(client_post(house.port, "/api/v1/runs", body, "", &answer), 202);
    root = client_json(&answer);
    (void)snprintf(awaited.path, sizeof(awaited.path), "/api/v1/runs/%s",
                   client_text(root, "run_id"));
    cJSON_Delete(root);
    assert_true(eventually(has_status, &awaited));
    double_store_hold(house.store, true);
    (void)snprintf(path, sizeof(path), "%s/resume", awaited.path);
    assert_int_equal(client_post(house.port, path, "{}", "", &answer), 504);
    double_store_hold(house.store, false);
    awaited.status = "SUCCESS";
    assert_true(eventually(has_status, &awaited));
}

/* The path of the run that an answer is about, with what follows it. */
static void path_of(const struct cr_buf *answer, const char *more, char path[static 96])
{
    cJSON *root = client_json(answer);

    assert_non_null(client_text(root, "run_id"));
    (void)snprintf(path, 96, "/api/v1/runs/%s%s", client_text(root, "run_id"), more);
    cJSON_Delete(root);
}

static void a_run_that_stalled_goes_on_with_a_hint(void **state)
{
    static const char hint[] = "{\"hint\":\"" HINT "\"}";
    struct awaited awaited = {.status = "SUCCESS"};
    CR_AUTO_BUF struct cr_buf answer;
    char path[96];

    (void)state;
    cr_buf_init(&answer, 1 << 20);
    assert_int_equal(client_post(house.port, "/api/v1/generate",
                                 "{\"task\":\"add\",\"verify\":\"EVIDENCE\"}", "", &answer),
                     200);
    assert_non_null(strstr(client_body(&answer), "\"cause\":\"STALLED\""));
    path_of(&answer, "/resume", path);
    assert_int_equal(client_post(house.port, path, "{\"hint\":\" \"}", "", &answer), 422);
    assert_non_null(strstr(client_body(&answer), "[\"body\",\"hint\"]"));
    assert_int_equal(client_post(house.port, path, "{\"hint\":\"\"}", "", &answer), 409); /* none */
    assert_non_null(strstr(client_body(&answer), "not interrupted"));
    assert_int_equal(client_post(house.port, path, "{\"hint\":\"x\",\"plan\":\"y\"}", "", &answer),
                     422);
    assert_int_equal(client_post(house.port, path, hint, "", &answer), 200);
    assert_non_null(strstr(client_body(&answer), "\"seq\":"));
    path_of(&answer, "", awaited.path);
    assert_true(eventually(has_status, &awaited));

    path_of(&answer, "/resume", path);
    assert_int_equal(client_post(house.port, path, hint, "", &answer), 409); /* it passed */
    assert_int_equal(client_get(house.port, awaited.path, &answer), 200);
    assert_non_null(strstr(client_body(&answer), "\"iterations\":2"));
}

static void the_engine_s_limits_become_422(void **state)
{
    static const char *const bodies[] = {
        "{\"task\":\"x\",\"max_iterations\":99}",
        "{\"task\":\"x\",\"max_iterations\":-1}",
        "{\"task\":\"  \"}",
        "{\"task\":\"x\",\"model\":\"../x\"}",
    };
    CR_AUTO_BUF struct cr_buf answer;

    (void)state;
    cr_buf_init(&answer, 1 << 20);
    for (size_t i = 0; i < CR_ARRAY_SIZE(bodies); i++) {
        if (client_post(house.port, "/api/v1/generate", bodies[i], "", &answer) != 422)
            fail_msg("%s is answered %s", bodies[i], cr_buf_str(&answer));
        assert_non_null(strstr(client_body(&answer), "{\"detail\":[{\"loc\":[\"body\",\""));
    }
}

static bool one_model_call_lives(void *user)
{
    (void)user;
    return double_model_live_calls(house.model) == 1;
}

static bool nothing_lives(void *user)
{
    (void)user;
    return double_model_live_calls(house.model) == 0 && agt_engine_live_runs(house.engine) == 0 &&
           agt_http_connections(house.http) == 0;
}

static void a_client_that_leaves_stops_the_model_call(void **state)
{
    static const char *const paths[] = {"/api/v1/generate", "/api/v1/stream"};

    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(paths); i++) {
        int fd = client_connect(house.port);
        char request[256];

        (void)snprintf(request, sizeof(request),
                       "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                       "Content-Length: 12\r\n\r\n{\"task\":\"x\"}",
                       paths[i]);
        client_send_str(fd, request);
        assert_true(eventually(one_model_call_lives, NULL));
        assert_int_equal(close(fd), 0);
        assert_true(eventually(nothing_lives, NULL));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_task_becomes_code, start, stop),
        cmocka_unit_test_setup_teardown(a_run_that_fails_is_an_answer, start_failing, stop),
        cmocka_unit_test_setup_teardown(a_stream_numbers_every_state_event, start, stop),
        cmocka_unit_test_setup_teardown(an_answer_waits_for_the_store_and_not_for_ever,
                                        start_durable, stop),
        cmocka_unit_test_setup_teardown(taking_up_waits_for_the_store_and_not_for_ever,
                                        start_durable, stop),
        cmocka_unit_test_setup_teardown(a_run_that_stalled_goes_on_with_a_hint, start_stalling,
                                        stop),
        cmocka_unit_test_setup_teardown(the_engine_s_limits_become_422, start, stop),
        cmocka_unit_test_setup_teardown(a_client_that_leaves_stops_the_model_call, start_held,
                                        stop),
    };

    return cmocka_run_group_tests(tests, test_rpc_init, test_rpc_fini);
}
