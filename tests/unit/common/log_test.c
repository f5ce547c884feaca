/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/err.h"
#include "common/log.h"
#include "common/trace.h"
#include "common/utf8.h"
#include "tests/harness/test.h"

#include <string.h>
#include <unistd.h>

#include <sys/mman.h>

/* What is written to stderr while `write_lines` runs. */
static void capture(void (*write_lines)(void), char *text, size_t size)
{
    CR_AUTO_CLOSE int file = memfd_create("log", MFD_CLOEXEC);
    CR_AUTO_CLOSE int old = dup(STDERR_FILENO);
    ssize_t n;

    assert_true(file >= 0 && old >= 0);
    assert_int_equal(dup2(file, STDERR_FILENO), STDERR_FILENO);
    write_lines();
    assert_int_equal(dup2(old, STDERR_FILENO), STDERR_FILENO);
    n = pread(file, text, size - 1, 0);
    assert_true(n >= 0);
    text[n] = '\0';
}

static void write_each_level(void)
{
    cr_log_error("one path=\"%s\"", "a\nb");
    cr_log_warn("two");
    cr_log_info("three");
    cr_log_debug("four");
}

static void log_writes_lines_up_to_its_level(void **state)
{
    char text[4096];

    (void)state;
    assert_int_equal(cr_log_setup_by_name("unit", "warn", "text", NULL), 0);
    capture(write_each_level, text, sizeof(text));

    assert_non_null(strstr(text, "Z error unit["));
    assert_non_null(strstr(text, "] one path=\"a\\u000ab\"\n"));
    assert_non_null(strstr(text, "Z warn unit["));
    assert_null(strstr(text, "three"));
    assert_true(cr_log_is_on(CR_LOG_WARN));
    assert_false(cr_log_is_on(CR_LOG_INFO));
}

static void log_writes_one_json_object_per_line(void **state)
{
    char text[4096];

    (void)state;
    assert_int_equal(cr_log_setup_by_name("unit", "debug", "json", NULL), 0);
    capture(write_each_level, text, sizeof(text));

    assert_int_equal(text[0], '{');
    assert_non_null(strstr(text, "\"level\":\"error\",\"component\":\"unit\",\"pid\":"));
    assert_non_null(strstr(text, "\"message\":\"one path=\\\"a\\u000ab\\\"\"}\n{"));
    assert_non_null(strstr(text, "\"message\":\"four\"}\n"));
}

static void write_strange_texts(void)
{
    static char huge[4000];

    cr_log_info("broken text=%s", "\xc3(\xff");
    cr_log_info("whole text=%s", "\xc3\xb1");
    memset(huge, 'x', sizeof(huge) - 1);
    /* A character of two bytes across every end that a buffer may have. */
    for (size_t i = 1500; i + 2 < sizeof(huge); i += 2)
        memcpy(huge + i, "\xc3\xb1", 2);
    cr_log_info("%s", huge);
    cr_log_info("x%s", huge);
}

static void log_writes_utf8_whatever_comes_in(void **state)
{
    static char text[16384];

    (void)state;
    assert_int_equal(cr_log_setup_by_name("unit", "debug", "json", NULL), 0);
    capture(write_strange_texts, text, sizeof(text));

    assert_true(cr_utf8_is_valid(text, strlen(text)));
    assert_non_null(strstr(text, "\"message\":\"broken text=\\u00c3(\\u00ff\"}\n"));
    assert_non_null(strstr(text, "\"message\":\"whole text=\xc3\xb1\"}\n"));
    assert_string_equal(text + strlen(text) - 5, "\xc3\xb1\"}\n");
}

static void write_for_a_trace(void)
{
    static const char parent[] = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    struct cr_trace trace;

    assert_true(cr_trace_parse(parent, strlen(parent), &trace));
    (void)cr_trace_enter(&trace);
    cr_log_info("within");
    (void)cr_trace_enter(NULL);
    cr_log_info("without");
}

static void log_has_the_ids_of_what_the_thread_works_for(void **state)
{
    char text[4096];

    (void)state;
    assert_int_equal(cr_log_setup_by_name("unit", "info", "json", NULL), 0);
    capture(write_for_a_trace, text, sizeof(text));
    assert_non_null(strstr(text, ",\"trace_id\":\"0af7651916cd43dd8448eb211c80319c\","
                                 "\"span_id\":\"b7ad6b7169203331\",\"version\":"));
    assert_null(strstr(strstr(text, "within"), "trace_id"));

    assert_int_equal(cr_log_setup_by_name("unit", "info", "text", NULL), 0);
    capture(write_for_a_trace, text, sizeof(text));
    assert_non_null(strstr(
        text, "] within trace_id=0af7651916cd43dd8448eb211c80319c span_id=b7ad6b7169203331\n"));
    assert_non_null(strstr(text, "] without\n"));
}

static void log_names_the_setting_that_is_wrong(void **state)
{
    struct cr_err err = CR_ERR_INIT;

    (void)state;
    assert_int_equal(cr_log_setup_by_name("unit", "loud", "text", &err), -EINVAL);
    assert_non_null(strstr(err.text, "--log-level: 'loud'"));
    assert_int_equal(cr_log_setup_by_name("unit", "info", "xml", &err), -EINVAL);
    assert_non_null(strstr(err.text, "--log-format: 'xml'"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(log_writes_lines_up_to_its_level),
        cmocka_unit_test(log_writes_one_json_object_per_line),
        cmocka_unit_test(log_writes_utf8_whatever_comes_in),
        cmocka_unit_test(log_has_the_ids_of_what_the_thread_works_for),
        cmocka_unit_test(log_names_the_setting_that_is_wrong),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
