/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/err.h"
#include "orchestrator/graph/engine.h"
#include "orchestrator/http/server.h"
#include "orchestrator/runs/runs.h"
#include "rpc/channel.h"
#include "rpc/client.h"
#include "rpc/connection.h"
#include "rpc/pack.h"
#include "rpc/server.h"
#include "tests/harness/double_store.h"
#include "tests/harness/doubles.h"
#include "tests/harness/rpc_group.h"
#include "tests/harness/test.h"
#include "tests/integration/orchestrator/http_client.h"

#include <crisol/sandbox/v1/sandbox.pb-c.h>
#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cjson/cJSON.h>

#include <sys/socket.h>

/* The server as main puts it together, on doubles of the model and of sandboxd's Execute. */
struct house {
    struct agt_model *model;
    struct agt_sandbox *sandbox;
    struct agt_store *store; /* NULL: none */
    struct agt_engine *engine;
    struct agt_runs *runs;
    struct rpc_server *server; /* sandboxd's ListRuntimes and GetCapabilities */
    struct rpc_loop *loop;
    struct rpc_channel *channel;
    struct agt_http *http;
    uint16_t port;
};

static struct house house;

int __real_rpc_pack_into(const ProtobufCMessage *message, struct cr_buf *buf);
int __wrap_rpc_pack_into(const ProtobufCMessage *message, struct cr_buf *buf);

/* What keeping a message comes to; 0: it is kept. */
static atomic_int keep_error;

int __wrap_rpc_pack_into(const ProtobufCMessage *message, struct cr_buf *buf)
{
    int error = atomic_load(&keep_error);

    return error < 0 ? error : __real_rpc_pack_into(message, buf);
}

static void answer_capabilities(struct rpc_call *call, const ProtobufCMessage *message)
{
    Crisol__Sandbox__V1__GetCapabilitiesResponse response =
        CRISOL__SANDBOX__V1__GET_CAPABILITIES_RESPONSE__INIT;
    char version[] = "9.9";

    (void)message;
    response.version = version;
    response.backend = CRISOL__SANDBOX__V1__BACKEND__BACKEND_NATIVE;
    rpc_call_finish(call, NULL, &response.base);
}

static void answer_runtimes(struct rpc_call *call, const ProtobufCMessage *message)
{
    Crisol__Sandbox__V1__ListRuntimesResponse response =
        CRISOL__SANDBOX__V1__LIST_RUNTIMES_RESPONSE__INIT;
    Crisol__Sandbox__V1__Runtime runtime = CRISOL__SANDBOX__V1__RUNTIME__INIT;
    Crisol__Sandbox__V1__Runtime *runtimes[] = {&runtime};
    char name[] = "python";

    (void)message;
    runtime.name = name;
    response.runtimes = runtimes;
    response.n_runtimes = 1;
    rpc_call_finish(call, NULL, &response.base);
}

static const struct rpc_method methods[] = {
    {
        .path = "/crisol.sandbox.v1.SandboxService/GetCapabilities",
        .kind = RPC_UNARY,
        .request = &crisol__sandbox__v1__get_capabilities_request__descriptor,
        .response = &crisol__sandbox__v1__get_capabilities_response__descriptor,
        .on_message = answer_capabilities,
    },
    {
        .path = "/crisol.sandbox.v1.SandboxService/ListRuntimes",
        .kind = RPC_UNARY,
        .request = &crisol__sandbox__v1__list_runtimes_request__descriptor,
        .response = &crisol__sandbox__v1__list_runtimes_response__descriptor,
        .on_message = answer_runtimes,
    },
    {0},
};

static void start_sandboxd(void)
{
    static const struct rpc_method *const tables[] = {methods};
    const struct rpc_server_options options = {0};
    const struct rpc_channel_options channel_options = {.target = "test"};
    const struct rpc_peer peer = {.is_unix = true, .uid = 1, .caller = "uid:1"};
    struct cr_err err = CR_ERR_INIT;
    int fds[2];

    assert_int_equal(rpc_server_new(tables, 1, &options, &house.server, &err), 0);
    assert_int_equal(rpc_server_start(house.server, &err), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    assert_int_equal(rpc_server_add_connection(house.server, fds[0], &peer, &err), 0);
    assert_int_equal(rpc_channel_new_fd(fds[1], &channel_options, &house.channel, &err), 0);
    assert_int_equal(rpc_loop_new(&house.loop, &err), 0);
}

static void start_house_on(struct agt_store *take_store, double_model_script model,
                           double_sandbox_script sandbox, bool has_key)
{
    struct cr_err err = CR_ERR_INIT;
    struct agt_engine_options engine_options = {.retry_base_ms = 1};
    struct agt_runs_options runs_options = {0};
    struct agt_http_options options = {
        .address = "127.0.0.1:0", .is_model_configured = has_key, .store_timeout_ms = 300};

    house = (struct house){.model = double_model_new(model, NULL),
                           .sandbox = double_sandbox_new(sandbox, NULL),
                           .store = take_store};
    double_model_set_configured(house.model, has_key);
    start_sandboxd();
    engine_options.model = house.model;
    engine_options.sandbox = house.sandbox;
    engine_options.store = house.store;
    assert_int_equal(agt_engine_new(&engine_options, &house.engine, &err), 0);
    runs_options.engine = house.engine;
    runs_options.store = house.store;
    assert_int_equal(agt_runs_new(&runs_options, &house.runs, &err), 0);
    options.runs = house.runs;
    options.sandbox = house.sandbox;
    options.loop = house.loop;
    options.channel = house.channel;
    assert_int_equal(agt_http_new(&options, &house.http, &err), 0);
    assert_int_equal(agt_http_start(house.http, &err), 0);
    house.port = agt_http_port(house.http);
}

static void start_house(double_model_script model, double_sandbox_script sandbox, bool has_key)
{
    start_house_on(NULL, model, sandbox, has_key);
}

static int start_durable(void **state)
{
    (void)state;
    start_house_on(double_store_new(), NULL, NULL, true);
    return 0;
}

static int start(void **state)
{
    (void)state;
    start_house(NULL, NULL, true);
    return 0;
}

static int start_without_key(void **state)
{
    (void)state;
    start_house(NULL, NULL, false);
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
    start_house(hold, NULL, true);
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
    start_house(NULL, fail_tests, true);
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
    start_house_on(double_store_new(), write_until_told, fail_until_told, true);
    return 0;
}

/* In the order of main: whoever calls goes before who is called. */
static int stop(void **state)
{
    bool is_clean = agt_http_stop(house.http, 1000);

    (void)state;
    if (house.store)
        double_store_hold(house.store, false);
    agt_http_free(house.http);
    agt_runs_free(house.runs);
    agt_engine_free(house.engine);
    rpc_loop_free(house.loop);
    rpc_channel_free(house.channel);
    (void)rpc_server_drain(house.server, 1000);
    rpc_server_free(house.server);
    house.sandbox->ops->free(house.sandbox);
    house.model->ops->free(house.model);
    if (house.store)
        house.store->ops->free(house.store);
    return is_clean ? 0 : -1;
}

static cJSON *json_of(const struct cr_buf *answer)
{
    cJSON *root = cJSON_Parse(client_body(answer));

    if (!root)
        fail_msg("no JSON: %s", cr_buf_str(answer));
    return root;
}

static const char *text_at(const cJSON *root, const char *name)
{
    return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(root, name));
}

static void health_asks_sandboxd(void **state)
{
    CR_AUTO_BUF struct cr_buf answer;
    cJSON *root;

    (void)state;
    cr_buf_init(&answer, 1 << 20);
    assert_int_equal(client_get(house.port, "/api/v1/health", &answer), 200);
    root = json_of(&answer);
    assert_string_equal(text_at(root, "status"), "healthy");
    assert_string_equal(text_at(root, "backend"), "native");
    assert_string_equal(text_at(root, "sandbox_version"), "9.9");
    assert_true(cJSON_IsTrue(cJSON_GetObjectItem(root, "sandbox_available")));
    assert_true(cJSON_IsFalse(cJSON_GetObjectItem(root, "docker_available")));
    cJSON_Delete(root);
    assert_int_equal(client_get(house.port, "/readyz", &answer), 200);
}

static void runtimes_come_from_sandboxd(void **state)
{
    CR_AUTO_BUF struct cr_buf answer;
    cJSON *root;
    cJSON *first;

    (void)state;
    cr_buf_init(&answer, 1 << 20);
    assert_int_equal(client_get(house.port, "/api/v1/runtimes", &answer), 200);
    root = json_of(&answer);
    first = cJSON_GetArrayItem(cJSON_GetObjectItem(root, "runtimes"), 0);
    assert_string_equal(text_at(first, "name"), "python");
    assert_true(cJSON_IsFalse(cJSON_GetObjectItem(first, "has_test_report")));
    cJSON_Delete(root);
}

static void a_task_becomes_code(void **state)
{
    CR_AUTO_BUF struct cr_buf answer;
    cJSON *root;

    (void)state;
    cr_buf_init(&answer, 1 << 20);
    assert_int_equal(
        client_post(house.port, "/api/v1/generate", "{\"task\":\"a cache\"}", "", &answer), 200);
    root = json_of(&answer);
    assert_string_equal(text_at(root, "task"), "a cache");
    assert_string_equal(text_at(root, "status"), "SUCCESS");
    assert_int_equal(cJSON_GetObjectItem(root, "iterations")->valueint, 1);
    assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(root, "files")), 2);
    assert_string_equal(text_at(cJSON_GetObjectItem(root, "verification"), "level"), "STUBS");
    assert_true(cJSON_IsTrue(
        cJSON_GetObjectItem(cJSON_GetObjectItem(root, "execution_result"), "success")));
    assert_int_equal(strlen(text_at(root, "run_id")), 32);
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
    root = json_of(&answer);
    assert_string_equal(text_at(root, "status"), "FAILED");
    assert_string_equal(text_at(root, "cause"), "MAX_ITERATIONS");
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
    root = json_of(&answer);
    (void)snprintf(awaited.path, sizeof(awaited.path), "/api/v1/runs/%s", text_at(root, "run_id"));
    cJSON_Delete(root);
    assert_true(eventually(has_status, &awaited));
    double_store_hold(house.store, true);
    (void)snprintf(path, sizeof(path), "%s/resume", awaited.path);
    assert_int_equal(client_post(house.port, path, "{}", "", &answer), 504);
    double_store_hold(house.store, false);
    awaited.status = "SUCCESS";
    assert_true(eventually(has_status, &awaited));
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

static void a_missing_key_is_explained(void **state)
{
    CR_AUTO_BUF struct cr_buf answer;

    (void)state;
    cr_buf_init(&answer, 1 << 20);
    assert_int_equal(client_post(house.port, "/api/v1/generate", "{\"task\":\"x\"}", "", &answer),
                     503);
    assert_non_null(strstr(client_body(&answer), "\"code\":\"FAILED_PRECONDITION\""));
    assert_int_equal(client_post(house.port, "/api/v1/execute",
                                 "{\"runtime\":\"pytest\",\"files\":[]}", "", &answer),
                     200);
    assert_int_equal(client_get(house.port, "/api/v1/health", &answer), 200);
    assert_non_null(strstr(client_body(&answer), "\"status\":\"degraded\""));
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

/* gRPC core names the socket it could not connect to; a client is not told. */
static void the_path_of_sandboxd_stays_ours(void **state)
{
    const struct rpc_channel_options channel_options = {.target = "unix:/nowhere/sandboxd.sock"};
    struct agt_http_options options = {.address = "127.0.0.1:0", .runs = house.runs};
    struct rpc_channel *channel = NULL;
    struct agt_sandbox *sandbox = NULL;
    struct agt_http *http = NULL;
    CR_AUTO_BUF struct cr_buf answer = {0};

    (void)state;
    cr_buf_init(&answer, 1 << 20);
    assert_int_equal(rpc_channel_new(&channel_options, &channel, NULL), 0);
    assert_int_equal(agt_sandbox_client_new(house.loop, channel, false, &sandbox, NULL), 0);
    options.sandbox = sandbox;
    options.loop = house.loop;
    options.channel = channel;
    assert_int_equal(agt_http_new(&options, &http, NULL), 0);
    assert_int_equal(agt_http_start(http, NULL), 0);

    assert_int_equal(client_get(agt_http_port(http), "/api/v1/runtimes", &answer), 503);
    assert_non_null(strstr(client_body(&answer), "sandboxd cannot be reached"));
    assert_null(strstr(client_body(&answer), "nowhere"));
    assert_int_equal(client_post(agt_http_port(http), "/api/v1/execute",
                                 "{\"runtime\":\"python\",\"code\":\"1\"}", "", &answer),
                     503);
    assert_non_null(strstr(client_body(&answer), "sandboxd cannot be reached"));
    assert_null(strstr(client_body(&answer), "nowhere"));

    assert_true(agt_http_stop(http, 1000));
    agt_http_free(http);
    sandbox->ops->free(sandbox);
    rpc_channel_free(channel);
}

/* The path of the run that an answer is about, with what follows it. */
static void path_of(const struct cr_buf *answer, const char *more, char path[static 96])
{
    cJSON *root = json_of(answer);

    assert_non_null(text_at(root, "run_id"));
    (void)snprintf(path, 96, "/api/v1/runs/%s%s", text_at(root, "run_id"), more);
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

/* A list without runtimes would be an answer, too: it has no bytes. */
static void an_answer_that_memory_has_no_room_for_is_an_error(void **state)
{
    CR_AUTO_BUF struct cr_buf answer;

    (void)state;
    cr_buf_init(&answer, 1 << 20);
    atomic_store(&keep_error, -ENOMEM);
    assert_int_equal(client_get(house.port, "/api/v1/runtimes", &answer), 429);
    assert_non_null(strstr(client_body(&answer), "RESOURCE_EXHAUSTED"));
    assert_non_null(strstr(client_body(&answer), "out of memory"));
    assert_int_equal(
        client_post(house.port, "/api/v2/execute",
                    "{\"language\":\"py\",\"version\":\"*\",\"files\":[{\"content\":\"\"}]}", "",
                    &answer),
        429);
    assert_non_null(strstr(client_body(&answer), "out of memory"));
    atomic_store(&keep_error, -ENOSPC);
    assert_int_equal(client_get(house.port, "/api/v1/runtimes", &answer), 500);
    assert_non_null(strstr(client_body(&answer), "could not be kept"));
    atomic_store(&keep_error, 0);
    assert_int_equal(client_get(house.port, "/api/v1/runtimes", &answer), 200);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(health_asks_sandboxd, start, stop),
        cmocka_unit_test_setup_teardown(runtimes_come_from_sandboxd, start, stop),
        cmocka_unit_test_setup_teardown(an_answer_that_memory_has_no_room_for_is_an_error, start,
                                        stop),
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
        cmocka_unit_test_setup_teardown(a_missing_key_is_explained, start_without_key, stop),
        cmocka_unit_test_setup_teardown(the_path_of_sandboxd_stays_ours, start, stop),
        cmocka_unit_test_setup_teardown(a_client_that_leaves_stops_the_model_call, start_held,
                                        stop),
    };

    return cmocka_run_group_tests(tests, test_rpc_init, test_rpc_fini);
}
