/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/buf.h"
#include "sandboxd/front/report.h"
#include "tests/harness/test.h"

#include <string.h>

#define HEAD "<?xml version=\"1.0\" encoding=\"utf-8\"?><testsuites><testsuite name=\"pytest\">"
#define TAIL "</testsuite></testsuites>"

static void parse(struct sbx_report *report, const char *text)
{
    sbx_report_parse(report, text, strlen(text), NULL);
}

static void report_of_pytest_is_read(void **state)
{
    static const char text[] = HEAD
        "<testcase classname=\"test_s\" name=\"test_ok\" time=\"0.25\" />"
        "<testcase classname=\"test_s.TestA\" name=\"test_bad[1-x]\" time=\"0.001\">"
        "<failure message=\"assert 1 == 2&#10;more\">def test():\n&gt; assert 1 == 2</failure>"
        "</testcase>"
        "<testcase classname=\"pkg.test_t\" name=\"test_err\"><error message=\"boom\">tb</error>"
        "</testcase>"
        "<testcase classname=\"test_s\" name=\"test_skip\"><skipped message=\"later\"/></testcase>"
        "<testcase classname=\"\" name=\"test_broken\"><error message=\"collection failure\"/>"
        "</testcase>" TAIL;
    struct sbx_report report;

    (void)state;
    parse(&report, text);

    assert_true(report.message.is_present);
    assert_int_equal(report.message.tests, 5);
    assert_int_equal(report.message.passed, 1);
    assert_int_equal(report.message.failed, 1);
    assert_int_equal(report.message.errors, 2);
    assert_int_equal(report.message.skipped, 1);
    assert_int_equal(report.message.n_cases, 5);
    assert_string_equal(report.message.cases[0]->id, "test_s.py::TestA::test_bad[1-x]");
    assert_string_equal(report.message.cases[0]->message, "assert 1 == 2");
    assert_string_equal(report.message.cases[0]->details, "def test():\n> assert 1 == 2");
    assert_string_equal(report.message.cases[1]->id, "pkg/test_t.py::test_err");
    assert_string_equal(report.message.cases[2]->message, "later");
    assert_string_equal(report.message.cases[3]->id, "test_broken");
    assert_string_equal(report.message.cases[4]->id, "test_s.py::test_ok"); /* passed: last */
    assert_int_equal(report.message.cases[4]->duration_us, 250000);
    sbx_report_done(&report);
}

static void report_counts_the_gravest_word_about_a_case(void **state)
{
    struct sbx_report report;

    (void)state;
    parse(&report, HEAD "<testcase name=\"t\"><skipped/><error message=\"e\">E</error>"
                        "<failure message=\"f\">F</failure></testcase>" TAIL);
    assert_int_equal(report.message.tests, 1);
    assert_int_equal(report.message.errors, 1);
    assert_int_equal(report.message.failed, 0);
    assert_string_equal(report.message.cases[0]->message, "e");
    assert_string_equal(report.message.cases[0]->details, "E");
    sbx_report_done(&report);
}

static void report_that_is_none_says_why(void **state)
{
    static const struct {
        const char *text;
        const char *problem;
    } rows[] = {
        {"", "not well-formed"},
        {"5 passed in 0.01s", "not well-formed"},
        {HEAD "<testcase name=\"a\"/>", "not well-formed"},
        {"<testsuites></testsuites>", "no test suite"},
        {"<html></html>", "no testsuite"},
        {HEAD TAIL "<x/>", "not well-formed"},
        {"<!DOCTYPE t [<!ENTITY a \"b\">]>" HEAD TAIL, "not well-formed"},
        {"<!DOCTYPE t [<!ENTITY a \"b\">]><testsuites><testsuite>&a;</testsuite></testsuites>",
         "document type"},
        {"<!DOCTYPE t SYSTEM \"file:///etc/passwd\"><testsuites/>", "document type"},
        {"<testsuites><testsuite>&b;</testsuite></testsuites>", "not well-formed"},
        {"<testsuite>\xff\xfe</testsuite>", "not well-formed"},
    };

    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(rows); i++) {
        struct sbx_report report;

        parse(&report, rows[i].text);
        assert_false(report.message.is_present);
        assert_int_equal(report.message.tests, 0);
        if (!strstr(report.message.problem, rows[i].problem) &&
            !strstr(report.message.problem, "document type"))
            fail_msg("row %zu: '%s'", i, report.message.problem);
        sbx_report_done(&report);
    }
}

static void report_that_was_not_there_takes_the_callers_words(void **state)
{
    struct sbx_report report;

    (void)state;
    sbx_report_parse(&report, NULL, 0, "the test run left no report");
    assert_false(report.message.is_present);
    assert_string_equal(report.message.problem, "the test run left no report");
    sbx_report_done(&report);
}

static void report_that_is_too_deep_is_refused(void **state)
{
    CR_AUTO_BUF struct cr_buf text;
    struct sbx_report report;

    (void)state;
    cr_buf_init(&text, 2U << 20);
    for (int i = 0; i < 100000; i++)
        assert_int_equal(cr_buf_add_str(&text, "<testsuite>"), 0);
    sbx_report_parse(&report, text.data, text.size, NULL);
    assert_string_equal(report.message.problem, "the report is nested too deeply");
    sbx_report_done(&report);
}

static void add_cases(struct cr_buf *text, size_t count, const char *body)
{
    for (size_t i = 0; i < count; i++)
        assert_int_equal(
            cr_buf_printf(text, "<testcase classname=\"t\" name=\"n%zu\">%s</testcase>", i, body),
            0);
}

static void report_keeps_bad_cases_first_and_counts_all(void **state)
{
    CR_AUTO_BUF struct cr_buf text;
    struct sbx_report report;

    (void)state;
    cr_buf_init(&text, 4U << 20);
    assert_int_equal(cr_buf_add_str(&text, HEAD), 0);
    add_cases(&text, 2000, "");
    add_cases(&text, 300, "<failure message=\"f\">d</failure>");
    assert_int_equal(cr_buf_add_str(&text, TAIL), 0);
    sbx_report_parse(&report, text.data, text.size, NULL);

    assert_int_equal(report.message.tests, 2300);
    assert_int_equal(report.message.failed, 300);
    assert_int_equal(report.message.n_cases, SBX_REPORT_CASES_MAX);
    for (size_t i = 0; i < SBX_REPORT_BAD_FIRST_MAX; i++)
        assert_int_equal(report.message.cases[i]->outcome,
                         CRISOL__SANDBOX__V1__TEST_OUTCOME__TEST_OUTCOME_FAILED);
    assert_int_equal(report.message.cases[SBX_REPORT_BAD_FIRST_MAX]->outcome,
                     CRISOL__SANDBOX__V1__TEST_OUTCOME__TEST_OUTCOME_PASSED);
    sbx_report_done(&report);
}

static void report_cuts_long_texts_on_character_borders(void **state)
{
    CR_AUTO_BUF struct cr_buf text;
    struct sbx_report report;

    (void)state;
    cr_buf_init(&text, 4U << 20);
    assert_int_equal(cr_buf_add_str(&text, HEAD "<testcase name=\""), 0);
    for (int i = 0; i < 100000; i++)
        assert_int_equal(cr_buf_add_str(&text, "\xe2\x82\xac"), 0);
    assert_int_equal(cr_buf_add_str(&text, "\"><failure>"), 0);
    for (int i = 0; i < 100000; i++)
        assert_int_equal(cr_buf_add_str(&text, "\xe2\x82\xac"), 0);
    assert_int_equal(cr_buf_add_str(&text, "</failure></testcase>" TAIL), 0);
    sbx_report_parse(&report, text.data, text.size, NULL);

    assert_true(report.message.is_present);
    assert_true(strlen(report.message.cases[0]->id) <= 512);
    assert_true(strlen(report.message.cases[0]->details) <= SBX_REPORT_DETAILS_MAX);
    assert_int_equal(strlen(report.message.cases[0]->details) % 3, 0);
    sbx_report_done(&report);
}

static void report_survives_cases_within_cases(void **state)
{
    struct sbx_report report;

    (void)state;
    parse(&report, HEAD "<testcase name=\"a\"><failure><testcase name=\"b\"></testcase>x</failure>"
                        "</testcase>" TAIL);
    assert_true(report.message.is_present);
    assert_int_equal(report.message.tests, 1);
    assert_int_equal(report.message.failed, 1);
    sbx_report_done(&report);
}

static void report_survives_odd_durations(void **state)
{
    struct sbx_report report;

    (void)state;
    parse(&report,
          HEAD "<testcase name=\"a\" time=\"nan\"/><testcase name=\"b\" time=\"-1\"/>"
               "<testcase name=\"c\" time=\"1e300\"/><testcase name=\"d\" time=\"x\"/>" TAIL);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(report.message.cases[i]->duration_us, 0);
    sbx_report_done(&report);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(report_of_pytest_is_read),
        cmocka_unit_test(report_counts_the_gravest_word_about_a_case),
        cmocka_unit_test(report_that_is_none_says_why),
        cmocka_unit_test(report_that_was_not_there_takes_the_callers_words),
        cmocka_unit_test(report_that_is_too_deep_is_refused),
        cmocka_unit_test(report_keeps_bad_cases_first_and_counts_all),
        cmocka_unit_test(report_cuts_long_texts_on_character_borders),
        cmocka_unit_test(report_survives_cases_within_cases),
        cmocka_unit_test(report_survives_odd_durations),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
