/* SPDX-License-Identifier: Apache-2.0 */

/* What the HTTP server asks of sandboxd, and says when it cannot. */
#include "common/auto.h"
#include "orchestrator/http/server.h"
#include "orchestrator/sandbox/sandbox.h"
#include "rpc/channel.h"
#include "rpc/pack.h"
#include "tests/harness/rpc_group.h"
#include "tests/harness/test.h"
#include "tests/integration/orchestrator/http_client.h"
#include "tests/integration/orchestrator/http_house.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include <cjson/cJSON.h>

static struct http_house house;

int __real_rpc_pack_into(const ProtobufCMessage *message, struct cr_buf *buf);
int __wrap_rpc_pack_into(const ProtobufCMessage *message, struct cr_buf *buf);

/* What keeping a message comes to; 0: it is kept. */
static atomic_int keep_error;

int __wrap_rpc_pack_into(const ProtobufCMessage *message, struct cr_buf *buf)
{
    int error = atomic_load(&keep_error);

    return error < 0 ? error : __real_rpc_pack_into(message, buf);
}

static int start(void **state)
{
    (void)state;
    http_house_start(&house, NULL, NULL, NULL, true);
    return 0;
}

static int start_without_key(void **state)
{
    (void)state;
    http_house_start(&house, NULL, NULL, NULL, false);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    return http_house_stop(&house) ? 0 : -1;
}

static void health_asks_sandboxd(void **state)
{
    CR_AUTO_BUF struct cr_buf answer;
    cJSON *root;

    (void)state;
    cr_buf_init(&answer, 1 << 20);
    assert_int_equal(client_get(house.port, "/api/v1/health", &answer), 200);
    root = client_json(&answer);
    assert_string_equal(client_text(root, "status"), "healthy");
    assert_string_equal(client_text(root, "backend"), "native");
    assert_string_equal(client_text(root, "sandbox_version"), "9.9");
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
    root = client_json(&answer);
    first = cJSON_GetArrayItem(cJSON_GetObjectItem(root, "runtimes"), 0);
    assert_string_equal(client_text(first, "name"), "python");
    assert_true(cJSON_IsFalse(cJSON_GetObjectItem(first, "has_test_report")));
    cJSON_Delete(root);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(health_asks_sandboxd, start, stop),
        cmocka_unit_test_setup_teardown(runtimes_come_from_sandboxd, start, stop),
        cmocka_unit_test_setup_teardown(an_answer_that_memory_has_no_room_for_is_an_error, start,
                                        stop),
        cmocka_unit_test_setup_teardown(a_missing_key_is_explained, start_without_key, stop),
        cmocka_unit_test_setup_teardown(the_path_of_sandboxd_stays_ours, start, stop),
    };

    return cmocka_run_group_tests(tests, test_rpc_init, test_rpc_fini);
}
