/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/trace.h"
#include "tests/harness/test.h"

#include <string.h>

#define ID "0af7651916cd43dd8448eb211c80319c"
#define SPAN "b7ad6b7169203331"

/* The cases of the specification's own text. */
static void traces_are_read_as_the_specification_says(void **state)
{
    static const struct {
        const char *text;
        bool is_valid;
    } cases[] = {
        {"00-" ID "-" SPAN "-01", true},
        {"00-" ID "-" SPAN "-00", true},
        {"00-" ID "-" SPAN "-ff", true}, /* bits that are not known are borne */
        {"cc-" ID "-" SPAN "-01", true}, /* a version of the future … */
        {"cc-" ID "-" SPAN "-01-what-else", true},
        {"cc-" ID "-" SPAN "-01.what-else", false},
        {"00-" ID "-" SPAN "-01-what-else", false},
        {"ff-" ID "-" SPAN "-01", false},
        {"00-" ID "-" SPAN "-0", false},
        {"00-" ID "-" SPAN, false},
        {"00-" ID "-" SPAN "-0g", false},
        {"00_" ID "-" SPAN "-01", false},
        {"00-0AF7651916CD43DD8448EB211C80319C-" SPAN "-01", false},
        {"00-00000000000000000000000000000000-" SPAN "-01", false},
        {"00-" ID "-0000000000000000-01", false},
        {" 00-" ID "-" SPAN "-01", false},
        {"0x-" ID "-" SPAN "-01", false},
        {"", false},
    };

    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(cases); i++) {
        struct cr_trace trace = {.flags = 7};

        if (cr_trace_parse(cases[i].text, strlen(cases[i].text), &trace) != cases[i].is_valid)
            fail_msg("'%s'", cases[i].text);
        if (!cases[i].is_valid)
            assert_int_equal(trace.flags, 7); /* untouched */
    }
}

static void a_trace_is_written_as_it_was_read(void **state)
{
    static const char text[] = "00-" ID "-" SPAN "-01";
    char written[CR_TRACE_PARENT_SIZE];
    char part[CR_TRACE_ID_SIZE];
    struct cr_trace trace;

    (void)state;
    assert_true(cr_trace_parse(text, strlen(text), &trace));
    cr_trace_format(&trace, written);
    assert_string_equal(written, text);
    cr_trace_id_text(&trace, part);
    assert_string_equal(part, ID);
    cr_trace_span_text(trace.span_id, part);
    assert_string_equal(part, SPAN);
}

static void a_child_has_a_span_of_its_own_in_the_same_trace(void **state)
{
    struct cr_trace parent = cr_trace_new(true);
    struct cr_trace other = cr_trace_new(false);
    struct cr_trace child = cr_trace_child(&parent);

    (void)state;
    assert_memory_equal(child.trace_id, parent.trace_id, sizeof(parent.trace_id));
    assert_memory_not_equal(child.span_id, parent.span_id, sizeof(parent.span_id));
    assert_int_equal(child.flags, CR_TRACE_SAMPLED);
    assert_memory_not_equal(other.trace_id, parent.trace_id, sizeof(parent.trace_id));
    assert_int_equal(other.flags, 0);
}

static void a_thread_works_for_one_trace_at_a_time(void **state)
{
    struct cr_trace outer = cr_trace_new(true);
    struct cr_trace inner = cr_trace_new(true);
    struct cr_trace before;

    (void)state;
    assert_null(cr_trace_current());
    (void)cr_trace_enter(&outer);
    before = cr_trace_enter(&inner);
    assert_memory_equal(cr_trace_current(), &inner, sizeof(inner));
    (void)cr_trace_enter(&before);
    assert_memory_equal(cr_trace_current(), &outer, sizeof(outer));
    (void)cr_trace_enter(NULL);
    assert_null(cr_trace_current());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(traces_are_read_as_the_specification_says),
        cmocka_unit_test(a_trace_is_written_as_it_was_read),
        cmocka_unit_test(a_child_has_a_span_of_its_own_in_the_same_trace),
        cmocka_unit_test(a_thread_works_for_one_trace_at_a_time),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
