/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/selftest/report.h"
#include "tests/harness/test.h"

#include <string.h>

/* Every probe held, and every control was seen to fail when it was left out. */
static struct sbx_report *good_report(void)
{
    static struct sbx_report report;

    memset(&report, 0, sizeof(report));
    sbx_catalog_load(&report.catalog);
    report.weakened = SBX_NO_CONTROL;
    for (size_t i = 0; i < report.catalog.count; i++)
        report.status[i] = SBX_PROBE_PASS;
    for (uint32_t i = 0; i < SBX_CONTROL_COUNT; i++)
        report.red[i] = 1;
    return &report;
}

static size_t first_of(const struct sbx_report *report, uint32_t control)
{
    size_t i = 0;

    while (report->catalog.items[i].control != control)
        i++;
    return i;
}

static void all_held_and_all_red_is_good(void **state)
{
    struct sbx_report *report = good_report();

    (void)state;
    sbx_report_settle(report);
    assert_true(sbx_report_is_good(report));
}

static void one_failure_is_not_good(void **state)
{
    struct sbx_report *report = good_report();

    (void)state;
    report->status[first_of(report, SBX_CONTROL_SECCOMP)] = SBX_PROBE_FAIL;
    sbx_report_settle(report);
    assert_false(sbx_report_is_good(report));
}

static void an_answer_that_never_came_is_an_error(void **state)
{
    struct sbx_report *report = good_report();

    (void)state;
    report->status[first_of(report, SBX_CONTROL_DEV)] = SBX_PROBE_NONE;
    sbx_report_settle(report);
    assert_int_equal(sbx_report_count(report, SBX_CONTROL_DEV, SBX_PROBE_ERROR), 1);
    assert_false(sbx_report_is_good(report));
}

static void a_control_that_was_never_red_is_not_good(void **state)
{
    struct sbx_report *report = good_report();

    (void)state;
    report->red[SBX_CONTROL_IPC] = 0;
    sbx_report_settle(report);
    assert_false(sbx_report_is_good(report));
}

static void a_gap_is_good_only_when_it_is_accepted(void **state)
{
    const uint32_t swap = UINT32_C(1) << SBX_CONTROL_SWAP;
    struct sbx_report *report = good_report();

    (void)state;
    report->gaps = swap;
    report->status[first_of(report, SBX_CONTROL_SWAP)] = SBX_PROBE_FAIL;
    sbx_report_settle(report);
    assert_int_equal(sbx_report_count(report, SBX_CONTROL_SWAP, SBX_PROBE_GAP), 1);
    assert_false(sbx_report_is_good(report));

    report->accepted = swap;
    assert_true(sbx_report_is_good(report));
}

static void what_was_left_out_on_purpose_fails_and_is_no_gap(void **state)
{
    struct sbx_report *report = good_report();

    (void)state;
    report->weakened = SBX_CONTROL_CPU;
    report->gaps = UINT32_C(1) << SBX_CONTROL_CPU;
    report->status[first_of(report, SBX_CONTROL_CPU)] = SBX_PROBE_FAIL;
    sbx_report_settle(report);
    assert_int_equal(sbx_report_count(report, SBX_CONTROL_CPU, SBX_PROBE_FAIL), 1);
    assert_false(sbx_report_is_good(report));
}

static void the_catalogue_covers_every_control(void **state)
{
    const struct sbx_report *report = good_report();

    (void)state;
    assert_true(report->catalog.count >= 150);
    for (uint32_t i = 0; i < SBX_CONTROL_COUNT; i++)
        assert_true(sbx_report_count(report, i, SBX_PROBE_PASS) > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_held_and_all_red_is_good),
        cmocka_unit_test(one_failure_is_not_good),
        cmocka_unit_test(an_answer_that_never_came_is_an_error),
        cmocka_unit_test(a_control_that_was_never_red_is_not_good),
        cmocka_unit_test(a_gap_is_good_only_when_it_is_accepted),
        cmocka_unit_test(what_was_left_out_on_purpose_fails_and_is_no_gap),
        cmocka_unit_test(the_catalogue_covers_every_control),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
