/* SPDX-License-Identifier: Apache-2.0 */
#include "common/utf8.h"
#include "rpc/status.h"
#include "tests/harness/test.h"

#include <errno.h>
#include <string.h>

static void every_code_has_a_name_and_an_http_status(void **state)
{
    (void)state;
    for (int code = RPC_OK; code <= RPC_UNAUTHENTICATED; code++) {
        assert_non_null(rpc_code_name((enum rpc_code)code));
        assert_in_range(rpc_code_to_http((enum rpc_code)code), 200, 504);
    }
    assert_string_equal(rpc_code_name(RPC_INVALID_ARGUMENT), "INVALID_ARGUMENT");
    assert_int_equal(rpc_code_to_http(RPC_INVALID_ARGUMENT), 422);
    assert_int_equal(rpc_code_to_http(RPC_RESOURCE_EXHAUSTED), 429);
}

static void a_number_outside_the_table_is_unknown(void **state)
{
    (void)state;
    assert_string_equal(rpc_code_name((enum rpc_code)17), "UNKNOWN");
    assert_string_equal(rpc_code_name((enum rpc_code) - 1), "UNKNOWN");
    assert_int_equal(rpc_code_to_http((enum rpc_code)99), 500);
}

static void one_violation_is_the_message(void **state)
{
    struct rpc_status status = RPC_STATUS_INIT;

    (void)state;
    rpc_status_add_violation(&status, "limits.pids", "%d is above the maximum of %d", 900, 64);

    assert_int_equal(status.code, RPC_INVALID_ARGUMENT);
    assert_int_equal(status.violation_count, 1);
    assert_string_equal(status.message, "limits.pids: 900 is above the maximum of 64");
}

static void violations_beyond_the_array_are_counted(void **state)
{
    struct rpc_status status = RPC_STATUS_INIT;

    (void)state;
    for (int i = 0; i < RPC_VIOLATIONS_MAX + 4; i++)
        rpc_status_add_violation(&status, "code", "bad %d", i);

    assert_int_equal(status.violation_count, RPC_VIOLATIONS_MAX);
    assert_int_equal(status.violations_left_out, 4);
    assert_string_equal(status.message, "code: bad 0 (and 19 more)");
}

static void set_starts_anew(void **state)
{
    struct rpc_status status = RPC_STATUS_INIT;

    (void)state;
    rpc_status_add_violation(&status, "code", "is empty");
    status.retry_after_ms = 5;
    rpc_status_set(&status, RPC_UNAVAILABLE, "slot %d is gone", 3);

    assert_int_equal(status.violation_count, 0);
    assert_int_equal(status.retry_after_ms, 0);
    assert_string_equal(status.message, "slot 3 is gone");
}

static void a_long_text_is_cut_at_a_character(void **state)
{
    struct rpc_status status = RPC_STATUS_INIT;
    char text[RPC_MESSAGE_MAX + 16];

    (void)state;
    for (size_t i = 0; i + 2 < sizeof(text); i += 2)
        memcpy(text + i, "é", 2);
    text[0] = 'x';
    text[1] = 'x';
    text[sizeof(text) - 2] = '\0';
    rpc_status_set(&status, RPC_INTERNAL, "%s", text);

    assert_true(strlen(status.message) >= RPC_MESSAGE_MAX - 3);
    assert_true(cr_utf8_is_valid(status.message, strlen(status.message)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_code_has_a_name_and_an_http_status),
        cmocka_unit_test(a_number_outside_the_table_is_unknown),
        cmocka_unit_test(one_violation_is_the_message),
        cmocka_unit_test(violations_beyond_the_array_are_counted),
        cmocka_unit_test(set_starts_anew),
        cmocka_unit_test(a_long_text_is_cut_at_a_character),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
