/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/err.h"
#include "sandboxd/selftest/docker_answers.h"
#include "sandboxd/selftest/report.h"
#include "tests/harness/test.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Every probe held, and every control was seen to fail when it was left out. */
static struct sbx_report *good_report(void)
{
    static struct sbx_report report;

    memset(&report, 0, sizeof(report));
    sbx_catalog_load(&report.catalog, SBX_ANSWERS_NATIVE);
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

/* What is printed to stdout, cut to `size`. */
static void print_to(void (*print)(const struct sbx_report *report),
                     const struct sbx_report *report, char *ret_text, size_t size)
{
    FILE *file = tmpfile();
    const int before = dup(STDOUT_FILENO);
    size_t length;

    assert_non_null(file);
    (void)fflush(stdout);
    assert_true(dup2(fileno(file), STDOUT_FILENO) >= 0);
    print(report);
    (void)fflush(stdout);
    assert_true(dup2(before, STDOUT_FILENO) >= 0);
    (void)close(before);
    rewind(file);
    length = fread(ret_text, 1, size - 1, file);
    ret_text[length] = '\0';
    (void)fclose(file);
}

static size_t count_lines(const char *text)
{
    size_t count = 0;

    for (; *text; text++)
        count += *text == '\n';
    return count;
}

/* Boxes that do not start are one problem, and not one for each probe and control. */
static void nothing_that_could_be_tried_is_a_few_lines(void **state)
{
    struct sbx_report *report = good_report();
    static char text[1U << 16];

    (void)state;
    memset(report->status, 0, sizeof(report->status));
    memset(report->red, 0, sizeof(report->red));
    (void)snprintf(report->problem, sizeof(report->problem), "the sandboxes are not ready in time");
    sbx_report_settle(report);
    assert_false(sbx_report_is_good(report));
    print_to(sbx_report_print_text, report, text, sizeof(text));
    assert_int_equal(count_lines(text), 3);
    assert_non_null(strstr(text, "ERROR the sandboxes are not ready in time\n0 probes executed: "));
    print_to(sbx_report_print_json, report, text, sizeof(text));
    assert_non_null(strstr(text, "\"probes\":[],"));
    assert_null(strstr(text, "\"unanswered\":0,"));
}

static void answers_that_are_missing_are_counted_in_one_line(void **state)
{
    struct sbx_report *report = good_report();
    static char text[1U << 16];

    (void)state;
    report->status[0] = SBX_PROBE_NONE;
    report->status[7] = SBX_PROBE_NONE;
    sbx_report_settle(report);
    print_to(sbx_report_print_text, report, text, sizeof(text));
    assert_non_null(strstr(text, "\nERROR 2 probes have no answer\n"));
    assert_non_null(strstr(text, " 2 ERROR; "));
    print_to(sbx_report_print_json, report, text, sizeof(text));
    assert_non_null(strstr(text, "\"probes\":[\n  {")); /* no comma in front of the first */
    assert_non_null(strstr(text, "\"unanswered\":2,"));
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

    assert_int_equal(sbx_report_accept(report, "swap", NULL), 0);
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

/* An answer for a probe that does not exist (any more) would hide nothing, and help nobody. */
static void every_answer_of_docker_is_about_a_probe(void **state)
{
    static struct sbx_catalog native;
    static struct sbx_catalog docker;
    size_t different = 0;

    (void)state;
    sbx_catalog_load(&native, SBX_ANSWERS_NATIVE);
    sbx_catalog_load(&docker, SBX_ANSWERS_DOCKER);
    assert_int_equal(native.count, docker.count);
    for (size_t i = 0; i < native.count; i++) {
        assert_string_equal(native.items[i].weaker, "");
        different += strcmp(native.items[i].expected, docker.items[i].expected) != 0 ||
                     docker.items[i].weaker[0] != '\0';
    }
    assert_int_equal(different, sbx_docker_answer_count());
}

/* Where a control is weaker without root, the probe that shows it is its own. */
static void with_one_id_a_file_that_changes_is_a_gap_of_its_control(void **state)
{
    static struct sbx_catalog one_id;
    struct sbx_report *report = good_report();
    size_t index = 0;

    (void)state;
    sbx_catalog_load(&one_id, SBX_ANSWERS_ONE_ID);
    while (one_id.items[index].weaker[0] == '\0')
        index++;
    assert_string_equal(one_id.items[index].name, "change-read-only-input");
    assert_string_equal(one_id.items[index].weaker, "none");
    assert_int_equal(one_id.items[index].control, SBX_CONTROL_ROOTFS);
    report->catalog = one_id;
    report->status[index] = SBX_PROBE_GAP;
    assert_false(sbx_report_is_good(report));
    assert_int_equal(sbx_report_accept(report, "rootfs", NULL), 0);
    assert_true(sbx_report_is_good(report));
}

/* A known weaker answer is a gap of its own: it neither passes nor fails, and is counted. */
static void a_weaker_answer_is_a_gap_that_is_seen(void **state)
{
    struct sbx_report *report = good_report();
    size_t index = first_of(report, SBX_CONTROL_PROC);

    (void)state;
    report->status[index] = SBX_PROBE_GAP;
    sbx_report_settle(report);
    assert_int_equal(sbx_report_count(report, SBX_CONTROL_PROC, SBX_PROBE_GAP), 1);
    assert_false(sbx_report_is_good(report));
}

/* By the name of the probe, or of its control, and of no other. */
static void a_weaker_answer_is_good_only_when_it_is_accepted(void **state)
{
    static const struct {
        const char *names;
        bool is_good;
    } cases[] = {
        {NULL, false},
        {"", false},
        {"seccomp", false},
        {"cpuinfo", false},
        {"mount-table", true},
        {"proc", true},
        {"dev,kill-init,mount-table,swap", true},
    };

    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(cases); i++) {
        struct sbx_report *report = good_report();
        size_t index = 0;

        while (strcmp(report->catalog.items[index].name, "mount-table") != 0)
            index++;
        report->status[index] = SBX_PROBE_GAP;
        sbx_report_settle(report);
        assert_int_equal(sbx_report_accept(report, cases[i].names, NULL), 0);
        assert_int_equal(sbx_report_accepts(report, index), cases[i].is_good);
        assert_int_equal(sbx_report_is_good(report), cases[i].is_good);
    }
}

/* A control that is missing as a whole is more than some of its probes. */
static void a_missing_control_is_accepted_by_its_own_name(void **state)
{
    struct sbx_report *report = good_report();

    (void)state;
    report->gaps = UINT32_C(1) << SBX_CONTROL_SWAP;
    sbx_report_settle(report);
    assert_int_equal(sbx_report_accept(report, "swap-limit-in-force", NULL), 0);
    assert_false(sbx_report_is_good(report));
    assert_int_equal(sbx_report_accept(report, "swap", NULL), 0);
    assert_true(sbx_report_is_good(report));
}

static void a_name_of_nothing_is_refused(void **state)
{
    static const char *const names[] = {"nothing",   "proc,nothing", ",",
                                        "proc,,dev", "swa",          "swaps"};

    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(names); i++) {
        struct cr_err err = CR_ERR_INIT;

        assert_int_equal(sbx_report_accept(good_report(), names[i], &err), -EINVAL);
        assert_non_null(strstr(err.text, "is neither a control nor a probe"));
    }
}

/* The verdict of one comparison, as it goes through the pipe. */
static uint32_t compare(const char *expected, const char *weaker, const char *seen)
{
    static struct sbx_catalog catalog;
    struct sbx_tester tester = {.catalog = &catalog};
    struct sbx_outcome outcome = {0};
    int ends[2];

    catalog.count = 1;
    (void)snprintf(catalog.items[0].expected, sizeof(catalog.items[0].expected), "%s", expected);
    (void)snprintf(catalog.items[0].weaker, sizeof(catalog.items[0].weaker), "%s", weaker);
    assert_int_equal(pipe(ends), 0);
    tester.outcome_fd = ends[1];
    sbx_tester_compare(&tester, 0, seen);
    assert_int_equal(read(ends[0], &outcome, sizeof(outcome)), sizeof(outcome));
    (void)close(ends[0]);
    (void)close(ends[1]);
    assert_string_equal(outcome.seen, seen);
    return outcome.status;
}

static void only_exact_answers_count(void **state)
{
    (void)state;
    assert_int_equal(compare("EPERM", "", "EPERM"), SBX_PROBE_PASS);
    assert_int_equal(compare("EACCES|EROFS", "", "EROFS"), SBX_PROBE_PASS);
    assert_int_equal(compare("EACCES|EROFS", "", "EACCES|EROFS"), SBX_PROBE_FAIL);
    assert_int_equal(compare("EACCES|EROFS", "", "EACC"), SBX_PROBE_FAIL);
    assert_int_equal(compare("EPERM", "", "ok"), SBX_PROBE_FAIL);
    assert_int_equal(compare("EPERM", "", ""), SBX_PROBE_FAIL);
    assert_int_equal(compare("EPERM", "ok", "ok"), SBX_PROBE_GAP);
    assert_int_equal(compare("EPERM", "ok", "okay"), SBX_PROBE_FAIL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_answer_of_docker_is_about_a_probe),
        cmocka_unit_test(with_one_id_a_file_that_changes_is_a_gap_of_its_control),
        cmocka_unit_test(a_weaker_answer_is_a_gap_that_is_seen),
        cmocka_unit_test(a_weaker_answer_is_good_only_when_it_is_accepted),
        cmocka_unit_test(a_missing_control_is_accepted_by_its_own_name),
        cmocka_unit_test(a_name_of_nothing_is_refused),
        cmocka_unit_test(only_exact_answers_count),
        cmocka_unit_test(all_held_and_all_red_is_good),
        cmocka_unit_test(one_failure_is_not_good),
        cmocka_unit_test(an_answer_that_never_came_is_an_error),
        cmocka_unit_test(nothing_that_could_be_tried_is_a_few_lines),
        cmocka_unit_test(answers_that_are_missing_are_counted_in_one_line),
        cmocka_unit_test(a_control_that_was_never_red_is_not_good),
        cmocka_unit_test(a_gap_is_good_only_when_it_is_accepted),
        cmocka_unit_test(what_was_left_out_on_purpose_fails_and_is_no_gap),
        cmocka_unit_test(the_catalogue_covers_every_control),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
