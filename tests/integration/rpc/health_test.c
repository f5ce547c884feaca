/* SPDX-License-Identifier: Apache-2.0 */
#include "grpc/health/v1/health.pb-c.h"
#include "rpc/status.h"
#include "tests/harness/rpc_group.h"
#include "tests/integration/rpc/fixture.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WATCHES_MAX 1024 /* as many as are let in */
#define SERVICE "crisol.test.v1.TestService"
#define SERVING GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__SERVING
#define NOT_SERVING GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__NOT_SERVING
#define SERVICE_UNKNOWN GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__SERVICE_UNKNOWN

static const struct rpc_client_method check_method = {
    "/grpc.health.v1.Health/Check", &grpc__health__v1__health_check_request__descriptor,
    &grpc__health__v1__health_check_response__descriptor};
static const struct rpc_client_method watch_method = {
    "/grpc.health.v1.Health/Watch", &grpc__health__v1__health_check_request__descriptor,
    &grpc__health__v1__health_check_response__descriptor};
static const struct rpc_client_method list_method = {
    "/grpc.health.v1.Health/List", &grpc__health__v1__health_list_request__descriptor,
    &grpc__health__v1__health_list_response__descriptor};

/* The serving status, or minus the code of the call. */
static int check(struct fixture *fixture, const char *service)
{
    Grpc__Health__V1__HealthCheckRequest request = GRPC__HEALTH__V1__HEALTH_CHECK_REQUEST__INIT;
    struct rpc_status status = RPC_STATUS_INIT;
    ProtobufCMessage *response = NULL;
    char name[128];
    int code;

    (void)snprintf(name, sizeof(name), "%s", service);
    request.service = name;
    code =
        rpc_call_blocking(fixture->channel, &check_method, &request.base, 5000, &response, &status);
    if (code != RPC_OK)
        return -code;
    code = (int)((const Grpc__Health__V1__HealthCheckResponse *)(const void *)response)->status;
    rpc_message_free(response);
    return code;
}

static void check_tells_the_state(void **state)
{
    struct fixture fixture;

    (void)state;
    fixture_start(&fixture, (struct rpc_server_options){0});

    assert_int_equal(check(&fixture, ""), NOT_SERVING);
    assert_int_equal(check(&fixture, SERVICE), NOT_SERVING);
    rpc_server_set_serving(fixture.server, "", true);
    assert_int_equal(check(&fixture, ""), SERVING);
    assert_int_equal(check(&fixture, SERVICE), NOT_SERVING);
    rpc_server_set_serving(fixture.server, SERVICE, true);
    assert_int_equal(check(&fixture, SERVICE), SERVING);
    assert_int_equal(check(&fixture, "other.Service"), -RPC_NOT_FOUND);

    fixture_stop(&fixture);
}

static void list_tells_every_service(void **state)
{
    Grpc__Health__V1__HealthListRequest request = GRPC__HEALTH__V1__HEALTH_LIST_REQUEST__INIT;
    const Grpc__Health__V1__HealthListResponse *list;
    struct rpc_status status = RPC_STATUS_INIT;
    ProtobufCMessage *response = NULL;
    struct fixture fixture;

    (void)state;
    fixture_start(&fixture, (struct rpc_server_options){0});
    rpc_server_set_serving(fixture.server, SERVICE, true);

    assert_int_equal(
        rpc_call_blocking(fixture.channel, &list_method, &request.base, 5000, &response, &status),
        RPC_OK);
    list = (const Grpc__Health__V1__HealthListResponse *)(const void *)response;
    assert_int_equal(list->n_statuses, 2);
    assert_string_equal(list->statuses[0]->key, "");
    assert_int_equal(list->statuses[0]->value->status, NOT_SERVING);
    assert_string_equal(list->statuses[1]->key, SERVICE);
    assert_int_equal(list->statuses[1]->value->status, SERVING);

    rpc_message_free(response);
    fixture_stop(&fixture);
}

/* A Watch call and what it told last. */
struct watch {
    atomic_int messages;
    _Atomic int last;
    atomic_int ends;
    _Atomic int code;
    struct rpc_client_call *call;
};

static bool on_message(void *user, const ProtobufCMessage *message)
{
    struct watch *watch = user;

    watch->last =
        (int)((const Grpc__Health__V1__HealthCheckResponse *)(const void *)message)->status;
    watch->messages++;
    return true;
}

static void on_end(void *user, const struct rpc_status *status)
{
    struct watch *watch = user;

    watch->code = (int)status->code;
    watch->ends++;
}

static void start_watch(struct watch *watch, struct rpc_loop *loop, struct fixture *fixture,
                        const char *service)
{
    Grpc__Health__V1__HealthCheckRequest request = GRPC__HEALTH__V1__HEALTH_CHECK_REQUEST__INIT;
    const struct rpc_client_handlers handlers = {
        .on_message = on_message, .on_end = on_end, .user = watch};
    char name[128];

    memset(watch, 0, sizeof(*watch));
    (void)snprintf(name, sizeof(name), "%s", service);
    request.service = name;
    assert_int_equal(rpc_client_start(loop, fixture->channel, &watch_method, &request.base, 0,
                                      &handlers, &watch->call, NULL),
                     0);
    wait_for_count(&watch->messages, 1);
}

static void watch_follows_the_state_until_the_drain(void **state)
{
    struct rpc_loop *loop = NULL;
    struct fixture fixture;
    struct watch known;
    struct watch unknown;

    (void)state;
    fixture_start(&fixture, (struct rpc_server_options){0});
    assert_int_equal(rpc_loop_new(&loop, NULL), 0);
    start_watch(&known, loop, &fixture, "");
    start_watch(&unknown, loop, &fixture, "later.Service");
    assert_int_equal(known.last, NOT_SERVING);
    assert_int_equal(unknown.last, SERVICE_UNKNOWN);

    rpc_server_set_serving(fixture.server, "", true);
    wait_for_count(&known.messages, 2);
    assert_int_equal(known.last, SERVING);
    rpc_server_set_serving(fixture.server, "", true); /* no news */
    rpc_server_set_serving(fixture.server, "later.Service", true);
    wait_for_count(&unknown.messages, 2);
    assert_int_equal(unknown.last, SERVING);
    assert_int_equal(known.messages, 2);
    assert_int_equal(rpc_server_live_calls(fixture.server), 0);

    assert_true(rpc_server_drain(fixture.server, 5000));
    wait_for_count(&known.ends, 1);
    wait_for_count(&unknown.ends, 1);
    assert_int_equal(known.last, NOT_SERVING);
    assert_int_equal(known.messages, 3);
    assert_int_equal(known.code, RPC_UNAVAILABLE);

    (void)rpc_client_unref(known.call);
    (void)rpc_client_unref(unknown.call);
    (void)rpc_loop_free(loop);
    fixture_stop(&fixture);
}

/* Also when the message before it is still on its way. */
static void the_last_word_of_a_watch_is_that_nothing_is_served(void **state)
{
    (void)state;
    for (int i = 0; i < 100; i++) {
        struct rpc_loop *loop = NULL;
        struct fixture fixture;
        struct watch watch;

        fixture_start(&fixture, (struct rpc_server_options){0});
        assert_int_equal(rpc_loop_new(&loop, NULL), 0);
        start_watch(&watch, loop, &fixture, "");
        rpc_server_set_serving(fixture.server, "", true);
        while (watch.messages < 2)
            (void)sched_yield();
        assert_true(rpc_server_drain(fixture.server, 5000));
        wait_for_count(&watch.ends, 1);
        assert_int_equal(watch.last, NOT_SERVING);

        (void)rpc_client_unref(watch.call);
        (void)rpc_loop_free(loop);
        fixture_stop(&fixture);
    }
}

static void a_watch_that_is_cancelled_is_freed(void **state)
{
    struct rpc_loop *loop = NULL;
    struct fixture fixture;
    struct watch watch;

    (void)state;
    fixture_start(&fixture, (struct rpc_server_options){0});
    assert_int_equal(rpc_loop_new(&loop, NULL), 0);
    start_watch(&watch, loop, &fixture, "");

    rpc_client_cancel(watch.call);
    wait_for_count(&watch.ends, 1);
    assert_int_equal(watch.code, RPC_CANCELLED);
    for (int i = 0; i < 50; i++) /* wakes meet the call in every state of its end */
        rpc_server_set_serving(fixture.server, "", i % 2 == 0);

    (void)rpc_client_unref(watch.call);
    (void)rpc_loop_free(loop);
    fixture_stop(&fixture);
}

/* Everybody may watch, and as often as the connections give room for. */
static void those_who_watch_leave_room_for_those_who_ask(void **state)
{
    struct watch *watches = calloc(WATCHES_MAX, sizeof(*watches));
    struct rpc_loop *loop = NULL;
    struct fixture fixture;

    (void)state;
    assert_non_null(watches);
    fixture_start(&fixture, (struct rpc_server_options){.max_streams = 2 * WATCHES_MAX});
    assert_int_equal(rpc_loop_new(&loop, NULL), 0);
    for (size_t i = 0; i < WATCHES_MAX; i++)
        start_watch(&watches[i], loop, &fixture, "");

    assert_int_equal(check(&fixture, ""), NOT_SERVING);

    for (size_t i = 0; i < WATCHES_MAX; i++)
        (void)rpc_client_unref(watches[i].call);
    (void)rpc_loop_free(loop);
    fixture_stop(&fixture);
    free(watches);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_tells_the_state),
        cmocka_unit_test(list_tells_every_service),
        cmocka_unit_test(watch_follows_the_state_until_the_drain),
        cmocka_unit_test(the_last_word_of_a_watch_is_that_nothing_is_served),
        cmocka_unit_test(a_watch_that_is_cancelled_is_freed),
        cmocka_unit_test(those_who_watch_leave_room_for_those_who_ask),
    };

    return cmocka_run_group_tests(tests, test_rpc_init, test_rpc_fini);
}
