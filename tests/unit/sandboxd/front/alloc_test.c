/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/buf.h"
#include "common/err.h"
#include "common/unconst.h"
#include "rpc/status.h"
#include "sandboxd/front/execution.h"
#include "sandboxd/front/output.h"
#include "sandboxd/front/recall.h"
#include "sandboxd/front/report.h"
#include "sandboxd/runtimes/table.h"
#include "tests/harness/alloc.h"
#include "tests/harness/test.h"

#include <errno.h>
#include <string.h>

#define ALLOCATIONS_MAX 200

static void wake(void *user)
{
    (void)user;
}

/* A request that needs every allocation there is. */
static void fill_request(Crisol__Sandbox__V1__ExecuteRequest *message,
                         Crisol__Sandbox__V1__CollectSpec **specs)
{
    crisol__sandbox__v1__execute_request__init(message);
    message->runtime = cr_unconst("pytest");
    message->code = cr_unconst("def test(): pass");
    message->stdin_text = cr_unconst("input");
    message->collect = specs;
    message->n_collect = 2;
}

static void execution_survives_each_failed_allocation(void **state)
{
    struct sbx_request_rules rules = {.maximum = sbx_maximum_limits,
                                      .runtimes = UINT32_MAX,
                                      .backend = CRISOL__SANDBOX__V1__BACKEND__BACKEND_NATIVE};
    Crisol__Sandbox__V1__CollectSpec spec = CRISOL__SANDBOX__V1__COLLECT_SPEC__INIT;
    Crisol__Sandbox__V1__CollectSpec *specs[] = {&spec, &spec};
    struct rpc_status status = RPC_STATUS_INIT;
    Crisol__Sandbox__V1__ExecuteRequest message;
    const struct sbx_waker waker = {.wake = wake};
    struct sbx_request request;
    int fds = test_count_fds();
    int failures = 0;
    int r = -ENOMEM;

    (void)state;
    spec.path = cr_unconst("out");
    fill_request(&message, specs);
    assert_int_equal(sbx_request_check(&message, &rules, &request, &status), 0);
    for (int n = 0; n < ALLOCATIONS_MAX && r < 0; n++) {
        struct sbx_execution *execution = NULL;
        struct cr_err err = CR_ERR_INIT;

        test_fail_alloc(n);
        r = sbx_execution_new(&message, &request, "a", &waker, &execution, &err);
        failures += test_stop_alloc();
        if (r < 0) {
            assert_int_equal(r, -ENOMEM);
            assert_null(execution);
            assert_true(strlen(err.text) > 0);
        }
        execution = sbx_execution_unref(execution);
        assert_int_equal(test_count_fds(), fds);
    }
    assert_int_equal(r, 0);
    assert_true(failures >= 6);
}

static void report_survives_each_failed_allocation(void **state)
{
    static const char text[] =
        "<testsuite><testcase name=\"a\"/><testcase classname=\"t\" name=\"b\">"
        "<failure message=\"m\">d</failure></testcase></testsuite>";
    bool is_whole = false;
    int failures = 0;

    (void)state;
    for (int n = 0; n < ALLOCATIONS_MAX && !is_whole; n++) {
        struct sbx_report report;

        test_fail_alloc(n);
        sbx_report_parse(&report, text, sizeof(text) - 1, NULL);
        is_whole = test_stop_alloc() == 0;
        failures += !is_whole;
        /* All of it or nothing: half a report could look like a passed one. */
        if (report.message.is_present) {
            assert_int_equal(report.message.tests, 2);
            assert_int_equal(report.message.failed, 1);
        } else {
            assert_int_equal(report.message.tests, 0);
            assert_true(strlen(report.message.problem) > 0);
        }
        sbx_report_done(&report);
    }
    assert_true(is_whole);
    assert_true(failures >= 6);
}

static void retry_is_refused_or_not_kept_without_memory(void **state)
{
    const struct sbx_recall_key key = {"a", "1", "d"};
    Crisol__Sandbox__V1__RunResponse message = CRISOL__SANDBOX__V1__RUN_RESPONSE__INIT;
    enum sbx_claim last = SBX_CLAIM_NOT_KEPT;
    int failures = 0;

    (void)state;
    message.stdout_text = cr_unconst("text");
    for (int n = 0; n < ALLOCATIONS_MAX && last != SBX_CLAIM_ANSWERED; n++) {
        struct sbx_recall recall = {0};
        struct sbx_record *record = NULL;
        struct sbx_waiter waiter = {0};
        int r;

        test_fail_alloc(n);
        r = sbx_recall_claim(&recall, &key, 0, &waiter, &record);
        if (r == SBX_CLAIM_OWN) {
            sbx_record_add(record, &message.base);
            sbx_record_end(record, 0);
            record = sbx_record_unref(record);
            /* Known in any case: it has run. */
            r = sbx_recall_claim(&recall, &key, 0, &waiter, &record);
            assert_true(r == SBX_CLAIM_ANSWERED || r == SBX_CLAIM_NOT_KEPT);
            last = (enum sbx_claim)r;
        } else {
            assert_int_equal(r, -ENOMEM);
        }
        failures += test_stop_alloc();
        (void)sbx_record_unref(record);
        sbx_recall_done(&recall);
        assert_int_equal(recall.bytes, 0);
    }
    assert_int_equal(last, SBX_CLAIM_ANSWERED);
    assert_true(failures >= 4);
}

static void output_drops_and_counts_what_it_has_no_memory_for(void **state)
{
    struct sbx_output output;
    struct cr_buf chunk;

    (void)state;
    cr_buf_init(&chunk, SBX_CHUNK_MAX);
    sbx_output_init(&output, SBX_OVERFLOW_TRUNCATE, 100, false);
    test_fail_alloc(0);
    (void)sbx_output_feed(&output, "hello", 5);
    assert_int_equal(test_stop_alloc(), 1);
    (void)sbx_output_feed(&output, "world", 5);
    sbx_output_end(&output);
    assert_int_equal(sbx_output_take(&output, &chunk).dropped, 10);
    assert_true(sbx_output_is_drained(&output));
    assert_int_equal(output.total, 10);
    sbx_output_done(&output);
    cr_buf_done(&chunk);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(execution_survives_each_failed_allocation),
        cmocka_unit_test(report_survives_each_failed_allocation),
        cmocka_unit_test(retry_is_refused_or_not_kept_without_memory),
        cmocka_unit_test(output_drops_and_counts_what_it_has_no_memory_for),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
