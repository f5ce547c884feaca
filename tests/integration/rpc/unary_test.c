/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/channel.h"
#include "rpc/status.h"
#include "tests/harness/rpc_group.h"
#include "tests/integration/rpc/fixture.h"
#include "tests/integration/rpc/raw.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ECHO_PATH "/crisol.test.v1.TestService/Echo"

static const struct rpc_server_options defaults = {0};

static void a_unary_call_is_answered(void **state)
{
    struct rpc_status status = RPC_STATUS_INIT;
    struct fixture fixture;

    (void)state;
    fixture_start(&fixture, defaults);

    assert_int_equal(fixture_echo(&fixture, "hello", 5000, &status), RPC_OK);
    assert_int_equal(fixture.service.last_uid, 1234);
    assert_true(fixture.service.has_deadline);

    fixture_stop(&fixture);
}

static void a_call_without_a_deadline_has_none(void **state)
{
    struct rpc_status status = RPC_STATUS_INIT;
    struct fixture fixture;

    (void)state;
    fixture_start(&fixture, defaults);

    assert_int_equal(fixture_echo(&fixture, "hello", 0, &status), RPC_OK);
    assert_false(fixture.service.has_deadline);

    fixture_stop(&fixture);
}

/* Core cuts it into many slices. */
static void a_large_message_comes_back_whole(void **state)
{
    Google__Protobuf__Any request = GOOGLE__PROTOBUF__ANY__INIT;
    struct rpc_status status = RPC_STATUS_INIT;
    const Google__Protobuf__Any *response;
    ProtobufCMessage *message = NULL;
    struct fixture fixture;

    (void)state;
    fixture_start(&fixture, defaults);
    request.value.len = 3U << 20;
    request.value.data = malloc(request.value.len);
    assert_non_null(request.value.data);
    for (size_t i = 0; i < request.value.len; i++)
        request.value.data[i] = (uint8_t)(i * 31 >> 3);

    assert_int_equal(
        rpc_call_blocking(fixture.channel, &test_echo, &request.base, 10000, &message, &status),
        RPC_OK);
    response = (const Google__Protobuf__Any *)(const void *)message;
    assert_int_equal(response->value.len, request.value.len);
    assert_memory_equal(response->value.data, request.value.data, request.value.len);

    rpc_message_free(message);
    free(request.value.data);
    fixture_stop(&fixture);
}

static void details_reach_the_client(void **state)
{
    struct rpc_status status = RPC_STATUS_INIT;
    struct fixture fixture;

    (void)state;
    fixture_start(&fixture, defaults);

    assert_int_equal(fixture_echo(&fixture, "fail", 5000, &status), RPC_INVALID_ARGUMENT);
    assert_string_equal(status.message, "limits.pids: is above the maximum of 64 (and 1 more)");
    assert_int_equal(status.violation_count, 2);
    assert_string_equal(status.violations[1].field, "code");
    assert_string_equal(status.violations[1].description, "is empty");
    assert_int_equal(status.retry_after_ms, 1250);
    assert_string_equal(status.reason, "TEST_REASON");

    fixture_stop(&fixture);
}

static void an_unknown_method_is_unimplemented_at_once(void **state)
{
    const struct rpc_client_method method = {"/crisol.test.v1.TestService/Nothing",
                                             test_echo.request, test_echo.response};
    Google__Protobuf__Any request = GOOGLE__PROTOBUF__ANY__INIT;
    struct rpc_status status = RPC_STATUS_INIT;
    ProtobufCMessage *response = NULL;
    struct fixture fixture;

    (void)state;
    fixture_start(&fixture, defaults);

    assert_int_equal(
        rpc_call_blocking(fixture.channel, &method, &request.base, 5000, &response, &status),
        RPC_UNIMPLEMENTED);
    assert_string_equal(status.message, "unknown method '/crisol.test.v1.TestService/Nothing'");
    assert_null(response);

    fixture_stop(&fixture);
}

static void a_request_that_is_too_large_is_refused(void **state)
{
    Google__Protobuf__Any request = GOOGLE__PROTOBUF__ANY__INIT;
    struct rpc_status status = RPC_STATUS_INIT;
    ProtobufCMessage *response = NULL;
    struct fixture fixture;

    (void)state;
    fixture_start(&fixture, (struct rpc_server_options){.max_request_bytes = 4096});
    request.value.len = 5000;
    request.value.data = calloc(1, request.value.len);

    assert_int_equal(
        rpc_call_blocking(fixture.channel, &test_echo, &request.base, 5000, &response, &status),
        RPC_RESOURCE_EXHAUSTED);

    free(request.value.data);
    assert_int_equal(fixture_echo(&fixture, "still here", 5000, &status), RPC_OK);
    fixture_stop(&fixture);
}

static void a_string_that_is_not_utf8_names_its_field(void **state)
{
    struct rpc_status status = RPC_STATUS_INIT;
    struct fixture fixture;

    (void)state;
    fixture_start(&fixture, defaults);

    assert_int_equal(fixture_echo(&fixture, "bad \xFF byte", 5000, &status), RPC_INVALID_ARGUMENT);
    assert_int_equal(status.violation_count, 1);
    assert_string_equal(status.violations[0].field, "type_url");

    fixture_stop(&fixture);
}

static void a_deadline_ends_the_call_on_both_sides(void **state)
{
    struct rpc_status status = RPC_STATUS_INIT;
    struct fixture fixture;

    (void)state;
    fixture_start(&fixture, defaults);

    assert_int_equal(fixture_echo(&fixture, "hang", 300, &status), RPC_DEADLINE_EXCEEDED);
    wait_for_count(&fixture.service.cancelled, 1);

    (void)rpc_call_unref(atomic_exchange(&fixture.service.hung, NULL));
    fixture_stop(&fixture);
}

static void a_handler_without_an_answer_is_an_internal_error(void **state)
{
    struct rpc_status status = RPC_STATUS_INIT;
    struct fixture fixture;

    (void)state;
    fixture_start(&fixture, defaults);

    assert_int_equal(fixture_echo(&fixture, "silence", 5000, &status), RPC_INTERNAL);

    fixture_stop(&fixture);
}

/* Wakes the call that hangs, twice, and lets go of it: the last reference may be this one. */
static void *wake_hung(void *argument)
{
    struct test_service *service = argument;
    struct rpc_call *call = NULL;

    while (!call) {
        (void)poll(NULL, 0, 1);
        call = atomic_exchange(&service->hung, NULL);
    }
    rpc_call_wake(call);
    rpc_call_wake(call);
    (void)rpc_call_unref(call);
    return NULL;
}

static void a_wake_from_another_thread_reaches_the_handler(void **state)
{
    Google__Protobuf__Any request = GOOGLE__PROTOBUF__ANY__INIT;
    struct rpc_status status = RPC_STATUS_INIT;
    ProtobufCMessage *response = NULL;
    struct fixture fixture;
    char hang[] = "hang";
    pthread_t thread;

    (void)state;
    fixture_start(&fixture, defaults);
    request.type_url = hang;
    assert_int_equal(pthread_create(&thread, NULL, wake_hung, &fixture.service), 0);

    assert_int_equal(
        rpc_call_blocking(fixture.channel, &test_echo, &request.base, 10000, &response, &status),
        RPC_OK);
    assert_string_equal(((const Google__Protobuf__Any *)(const void *)response)->type_url, "woken");

    assert_int_equal(pthread_join(thread, NULL), 0);
    rpc_message_free(response);
    fixture_stop(&fixture);
}

static void a_reference_let_go_elsewhere_is_freed(void **state)
{
    struct rpc_status status = RPC_STATUS_INIT;
    struct fixture fixture;

    (void)state;
    fixture_start(&fixture, defaults);
    assert_int_equal(fixture_echo(&fixture, "hang", 300, &status), RPC_DEADLINE_EXCEEDED);
    wait_for_count(&fixture.service.cancelled, 1);
    assert_int_equal(fixture.service.freed, 0);
    assert_int_equal(rpc_server_live_calls(fixture.server), 1);

    (void)rpc_call_unref(atomic_exchange(&fixture.service.hung, NULL));

    wait_for_count(&fixture.service.freed, 1);
    fixture_stop(&fixture);
}

static void calls_above_the_cap_are_refused(void **state)
{
    const struct rpc_server_options options = {.max_calls = 1};
    struct rpc_status status = RPC_STATUS_INIT;
    struct fixture fixture;

    (void)state;
    fixture_start(&fixture, options);
    assert_int_equal(fixture_echo(&fixture, "hang", 300, &status), RPC_DEADLINE_EXCEEDED);

    /* Held by the handler still. */
    assert_int_equal(fixture_echo(&fixture, "hello", 5000, &status), RPC_RESOURCE_EXHAUSTED);
    assert_int_equal(status.retry_after_ms, 1000);
    (void)rpc_call_unref(atomic_exchange(&fixture.service.hung, NULL));
    wait_for_count(&fixture.service.freed, 1);
    assert_int_equal(fixture_echo(&fixture, "hello", 5000, &status), RPC_OK);

    fixture_stop(&fixture);
}

static bool deny_echo(void *context, const struct rpc_call *call, char caller[64],
                      struct rpc_status *ret_status)
{
    const char *value;
    size_t size;

    (void)context;
    (void)caller;
    if (rpc_call_metadata(call, "authorization", &value, &size) && size == 12 &&
        memcmp(value, "Bearer magic", size) == 0)
        return true;
    rpc_status_set(ret_status, RPC_UNAUTHENTICATED, "no token for %s", rpc_call_path(call));
    return false;
}

static void a_call_needs_to_be_authorised(void **state)
{
    const struct rpc_channel_options with_token = {.target = "test", .token = "magic"};
    struct rpc_status status = RPC_STATUS_INIT;
    struct fixture fixture;

    (void)state;
    fixture_start(&fixture, (struct rpc_server_options){.authorize = deny_echo});

    assert_int_equal(fixture_echo(&fixture, "hello", 5000, &status), RPC_UNAUTHENTICATED);
    assert_string_equal(status.message, "no token for " ECHO_PATH);
    assert_int_equal(fixture.service.started, 0);

    fixture.channel = rpc_channel_free(fixture.channel);
    assert_int_equal(
        rpc_channel_new_fd(fixture_connect_raw(&fixture), &with_token, &fixture.channel, NULL), 0);
    assert_int_equal(fixture_echo(&fixture, "hello", 5000, &status), RPC_OK);
    fixture_stop(&fixture);
}

static void who_may_not_call_takes_no_place_and_hears_why(void **state)
{
    const struct rpc_channel_options with_token = {.target = "test", .token = "magic"};
    struct rpc_status status = RPC_STATUS_INIT;
    struct rpc_channel *without;
    struct fixture fixture;

    (void)state;
    fixture_start(&fixture, (struct rpc_server_options){.authorize = deny_echo, .max_calls = 1});
    without = fixture.channel;
    assert_int_equal(
        rpc_channel_new_fd(fixture_connect_raw(&fixture), &with_token, &fixture.channel, NULL), 0);
    assert_int_equal(fixture_echo(&fixture, "hang", 300, &status), RPC_DEADLINE_EXCEEDED);
    assert_int_equal(fixture_echo(&fixture, "hello", 5000, &status), RPC_RESOURCE_EXHAUSTED);
    (void)rpc_channel_free(fixture.channel);

    fixture.channel = without;
    assert_int_equal(fixture_echo(&fixture, "hello", 5000, &status), RPC_UNAUTHENTICATED);
    (void)rpc_call_unref(atomic_exchange(&fixture.service.hung, NULL));
    wait_for_count(&fixture.service.freed, 1);
    fixture_stop(&fixture);
}

static void a_unary_call_without_a_message_is_invalid(void **state)
{
    struct fixture fixture;
    int fd;

    (void)state;
    fixture_start(&fixture, defaults);
    fd = fixture_connect_raw(&fixture);

    raw_open(fd, ECHO_PATH);
    raw_data(fd, "", 0, true);

    assert_int_equal(raw_read_status(fd), RPC_INVALID_ARGUMENT);
    assert_int_equal(close(fd), 0);
    fixture_stop(&fixture);
}

static void a_message_that_is_cut_short_is_invalid(void **state)
{
    struct fixture fixture;
    int fd;

    (void)state;
    fixture_start(&fixture, defaults);
    fd = fixture_connect_raw(&fixture);

    raw_open(fd, ECHO_PATH);
    raw_data(fd, "\0\0\0\0\x09\x0A\x05", 7, true);

    assert_int_equal(raw_read_status(fd), RPC_INVALID_ARGUMENT);
    assert_int_equal(close(fd), 0);
    fixture_stop(&fixture);
}

static void a_client_that_sends_no_message_is_timed_out(void **state)
{
    struct fixture fixture;
    int fd;

    (void)state;
    fixture_start(&fixture, (struct rpc_server_options){.request_timeout_ms = 50});
    fd = fixture_connect_raw(&fixture);

    raw_open(fd, ECHO_PATH);

    assert_int_equal(raw_read_status(fd), RPC_DEADLINE_EXCEEDED);
    assert_int_equal(close(fd), 0);
    fixture_stop(&fixture);
}

/* What connection.h promises, and the table of peers rests upon. */
static void core_keeps_the_fd_while_a_call_lives(void **state)
{
    struct rpc_status status = RPC_STATUS_INIT;
    struct fixture fixture;
    int fds;

    (void)state;
    fixture_start(&fixture, defaults);
    fds = test_count_fds();
    assert_int_equal(fixture_echo(&fixture, "hang", 300, &status), RPC_DEADLINE_EXCEEDED);
    fixture.channel = rpc_channel_free(fixture.channel);
    wait_for_count(&fixture.service.cancelled, 1);

    /* The client's end goes, the server's end stays. */
    for (int i = 0; i < 200; i++)
        (void)poll(NULL, 0, 1);
    assert_int_equal(test_count_fds(), fds - 1);

    (void)rpc_call_unref(atomic_exchange(&fixture.service.hung, NULL));
    wait_for_count(&fixture.service.freed, 1);
    for (int i = 0; i < 5000 && test_count_fds() > fds - 2; i++)
        (void)poll(NULL, 0, 1);
    assert_int_equal(test_count_fds(), fds - 2);
    fixture_stop(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_unary_call_is_answered),
        cmocka_unit_test(a_call_without_a_deadline_has_none),
        cmocka_unit_test(a_large_message_comes_back_whole),
        cmocka_unit_test(details_reach_the_client),
        cmocka_unit_test(an_unknown_method_is_unimplemented_at_once),
        cmocka_unit_test(a_request_that_is_too_large_is_refused),
        cmocka_unit_test(a_string_that_is_not_utf8_names_its_field),
        cmocka_unit_test(a_deadline_ends_the_call_on_both_sides),
        cmocka_unit_test(a_handler_without_an_answer_is_an_internal_error),
        cmocka_unit_test(a_wake_from_another_thread_reaches_the_handler),
        cmocka_unit_test(a_reference_let_go_elsewhere_is_freed),
        cmocka_unit_test(calls_above_the_cap_are_refused),
        cmocka_unit_test(a_call_needs_to_be_authorised),
        cmocka_unit_test(who_may_not_call_takes_no_place_and_hears_why),
        cmocka_unit_test(a_unary_call_without_a_message_is_invalid),
        cmocka_unit_test(a_message_that_is_cut_short_is_invalid),
        cmocka_unit_test(a_client_that_sends_no_message_is_timed_out),
        cmocka_unit_test(core_keeps_the_fd_while_a_call_lives),
    };

    return cmocka_run_group_tests(tests, test_rpc_init, test_rpc_fini);
}
