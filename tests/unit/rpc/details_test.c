/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/details.h"
#include "rpc/status.h"
#include "tests/harness/alloc.h"
#include "tests/harness/test.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct rpc_status full_status(void)
{
    struct rpc_status status = RPC_STATUS_INIT;

    rpc_status_add_violation(&status, "limits.pids", "is above the maximum of 64");
    rpc_status_add_violation(&status, "files[2].path", "må være relativ");
    status.retry_after_ms = 61003;
    (void)snprintf(status.reason, sizeof(status.reason), "QUEUE_FULL");
    return status;
}

static void details_come_back_as_they_went(void **state)
{
    const struct rpc_status sent = full_status();
    struct rpc_status received = RPC_STATUS_INIT;
    uint8_t *data = NULL;
    size_t size = 0;

    (void)state;
    assert_int_equal(rpc_details_pack(&sent, &data, &size), 0);
    assert_int_equal(rpc_details_parse(data, size, &received), 0);

    assert_int_equal(received.violation_count, 2);
    assert_string_equal(received.violations[0].field, "limits.pids");
    assert_string_equal(received.violations[1].field, "files[2].path");
    assert_string_equal(received.violations[1].description, "må være relativ");
    assert_int_equal(received.retry_after_ms, 61003);
    assert_string_equal(received.reason, "QUEUE_FULL");
    free(data);
}

static void a_status_without_details_has_no_bytes(void **state)
{
    struct rpc_status status = RPC_STATUS_INIT;
    uint8_t *data = (uint8_t *)&status;
    size_t size = 1;

    (void)state;
    rpc_status_set(&status, RPC_UNAVAILABLE, "gone");

    assert_int_equal(rpc_details_pack(&status, &data, &size), 0);
    assert_null(data);
    assert_int_equal(size, 0);
}

static void bytes_that_are_no_status_change_nothing(void **state)
{
    struct rpc_status status = RPC_STATUS_INIT;

    (void)state;
    assert_int_equal(rpc_details_parse("\x1A\x7F", 2, &status), -EINVAL);
    assert_int_equal(status.violation_count, 0);
    assert_string_equal(status.reason, "");
}

/* details: an Any of a type that we do not know, then a RetryInfo whose bytes are broken. */
static void unknown_and_broken_details_are_skipped(void **state)
{
    static const char data[] = "\x1A\x0B\x0A\x09"
                               "x/unknown"
                               "\x1A\x1E\x0A\x18"
                               "x.y/google.rpc.RetryInfo"
                               "\x12\x02\xFF\xFF";
    struct rpc_status status = RPC_STATUS_INIT;

    (void)state;
    assert_int_equal(rpc_details_parse(data, sizeof(data) - 1, &status), 0);
    assert_int_equal(status.retry_after_ms, 0);
}

/* A foreign server may send what our fields cannot hold. */
static void texts_too_long_are_cut_and_delays_capped(void **state)
{
    /* RetryInfo of 2^42 s; ErrorInfo with a reason of 70 letters */
    static const char retry_info[] = "\x1A\x26\x0A\x18"
                                     "t.x/google.rpc.RetryInfo"
                                     "\x12\x0A\x0A\x08\x08\x80\x80\x80\x80\x80\x80\x01";
    static const char error_info[] = "\x1A\x64\x0A\x18"
                                     "t.x/google.rpc.ErrorInfo"
                                     "\x12\x48\x0A\x46";
    struct rpc_status status = RPC_STATUS_INIT;
    char data[sizeof(error_info) - 1 + 70];

    (void)state;
    assert_int_equal(rpc_details_parse(retry_info, sizeof(retry_info) - 1, &status), 0);
    assert_int_equal(status.retry_after_ms, INT32_MAX);

    memcpy(data, error_info, sizeof(error_info) - 1);
    memset(data + sizeof(error_info) - 1, 'R', 70);
    assert_int_equal(rpc_details_parse(data, sizeof(data), &status), 0);
    assert_int_equal(strlen(status.reason), sizeof(status.reason) - 1);
}

static void the_largest_status_fits_into_trailers(void **state)
{
    struct rpc_status sent = RPC_STATUS_INIT;
    struct rpc_status received = RPC_STATUS_INIT;
    uint8_t *data = NULL;
    size_t size = 0;
    char text[300];

    (void)state;
    memset(text, 'x', sizeof(text));
    text[sizeof(text) - 1] = '\0';
    for (int i = 0; i < RPC_VIOLATIONS_MAX; i++)
        rpc_status_add_violation(&sent, text, "%s", text);
    sent.retry_after_ms = 1;
    (void)snprintf(sent.reason, sizeof(sent.reason), "%.60s", text);

    assert_int_equal(rpc_details_pack(&sent, &data, &size), 0);
    /* In base64, beside the message with every byte percent-encoded. */
    assert_true(size * 4 / 3 + strlen(sent.message) * 3 < 8192 - 512);
    assert_int_equal(rpc_details_parse(data, size, &received), 0);
    assert_in_range(received.violation_count, 5, RPC_VIOLATIONS_MAX - 1);
    assert_int_equal(received.retry_after_ms, 1);
    free(data);
}

static void every_allocation_may_fail(void **state)
{
    const struct rpc_status sent = full_status();
    struct rpc_status received = RPC_STATUS_INIT;
    int n = 0;
    int r;

    (void)state;
    do {
        uint8_t *data = NULL;
        size_t size = 0;

        test_fail_alloc(n++);
        r = rpc_details_pack(&sent, &data, &size);
        if (r == 0)
            r = rpc_details_parse(data, size, &received);
        free(data);
        /* -EINVAL: the parser's memory ran out within protobuf-c. */
        assert_true(r == 0 || r == -ENOMEM || r == -EINVAL);
    } while (test_stop_alloc());
    assert_int_equal(r, 0);
    assert_true(n > 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(details_come_back_as_they_went),
        cmocka_unit_test(a_status_without_details_has_no_bytes),
        cmocka_unit_test(bytes_that_are_no_status_change_nothing),
        cmocka_unit_test(unknown_and_broken_details_are_skipped),
        cmocka_unit_test(texts_too_long_are_cut_and_delays_capped),
        cmocka_unit_test(the_largest_status_fits_into_trailers),
        cmocka_unit_test(every_allocation_may_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
