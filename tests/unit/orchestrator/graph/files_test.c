/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/buf.h"
#include "common/unconst.h"
#include "orchestrator/graph/answer.h"
#include "orchestrator/graph/check_plan.h"
#include "orchestrator/graph/fenced.h"
#include "orchestrator/graph/files.h"
#include "orchestrator/graph/prompt.h"
#include "orchestrator/graph/stall.h"
#include "orchestrator/graph/terms.h"
#include "tests/harness/test.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LEVEL(name) CRISOL__AGENT__V1__VERIFICATION_LEVEL__VERIFICATION_LEVEL_##name
#define OUTCOME(name) CRISOL__AGENT__V1__CHECK_OUTCOME__CHECK_OUTCOME_##name
#define TWO "```python path=test_solution.py\nt = 1\n```\n```python path=solution.py\ns = 1\n```\n"
#define CART "```python path=shop/cart.py\nc = 1\n```\n"
#define RATES "```json path=data/rates.json\n{\"a\": 1}\n```\n"

/* Terms that ask for shop/cart.py and data/rates.json, and allow one file more. */
static const Crisol__Agent__V1__TaskTerms *terms_of_shop(void)
{
    static Crisol__Agent__V1__TaskTerms terms = CRISOL__AGENT__V1__TASK_TERMS__INIT;
    static Crisol__Agent__V1__File input = CRISOL__AGENT__V1__FILE__INIT;
    static Crisol__Agent__V1__File *inputs[] = {&input};
    static char *paths[2];

    paths[0] = cr_unconst("shop/cart.py");
    paths[1] = cr_unconst("data/rates.json");
    input.path = cr_unconst("data/prices.csv");
    terms.input_files = inputs;
    terms.n_input_files = 1;
    terms.output_files = paths;
    terms.n_output_files = 2;
    terms.max_more_files = 1;
    return &terms;
}

static void paths_that_do_harm_are_refused(void **state)
{
    static const char *const good[] = {
        "a.py",       "shop/__init__.py", "a/b/c/d/e/f.txt",   "x-1_y.csv",
        "contest.py", "pytest_like.py",   "data/solution.json"};
    static const char *const bad[] = {
        "",           "/a",           "a/",           "a//b",          "./a",
        "../a",       "a/../b",       ".hidden",      "a/.git/config", "-x",
        "a b",        "a\\b",         "a\nb",         "conftest.py",   "shop/conftest.py",
        "pytest.ini", "tox.ini",      "setup.cfg",    "a/x.pth",       "m.so",
        "m.pyc",      "test_more.py", "more_test.py", "a/test_x.py",   "sitecustomize.py",
        "pytest.py",  "_pytest/x.py", "solution/a",   "solution.py/a", "__pycache__/a",
        "a/b.",       "pytest/a.py",  "1/2/3/4/5/6/7"};
    char longest[AGT_PATH_MAX + 2];

    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(good); i++) {
        if (agt_files_path_fault(good[i], strlen(good[i])))
            fail_msg("'%s' is refused: %s", good[i],
                     agt_files_path_fault(good[i], strlen(good[i])));
    }
    for (size_t i = 0; i < CR_ARRAY_SIZE(bad); i++) {
        if (!agt_files_path_fault(bad[i], strlen(bad[i])))
            fail_msg("'%s' is allowed", bad[i]);
    }
    assert_non_null(agt_files_path_fault("a\0b", 3));
    memset(longest, 'a', sizeof(longest));
    assert_null(agt_files_path_fault(longest, AGT_PATH_MAX));
    assert_non_null(agt_files_path_fault(longest, AGT_PATH_MAX + 1));
}

static void files_are_sorted_replaced_and_bounded(void **state)
{
    struct agt_files files = AGT_FILES_INIT;
    char path[16];

    (void)state;
    assert_int_equal(agt_files_put(&files, "b/x", strdup("1")), 0);
    assert_int_equal(agt_files_put(&files, "a", strdup("2")), 0);
    assert_int_equal(agt_files_put(&files, "b/x", strdup("three")), 0);
    assert_int_equal(files.more_count, 2);
    assert_int_equal(files.more_bytes, 6);
    assert_string_equal(files.more[0].path, "a");
    assert_string_equal(agt_files_find(&files, "b/x"), "three");
    assert_int_equal(agt_files_put(&files, "b", strdup("4")), -EINVAL);
    assert_int_equal(agt_files_put(&files, "a/b", strdup("4")), -EINVAL);
    assert_int_equal(agt_files_put(&files, "conftest.py", strdup("4")), -EINVAL);
    for (int i = 2; i < AGT_MORE_FILES_MAX; i++) {
        (void)snprintf(path, sizeof(path), "f%d", i);
        assert_int_equal(agt_files_put(&files, path, strdup("")), 0);
    }
    assert_int_equal(agt_files_put(&files, "one_too_many", strdup("")), -ENOSPC);
    agt_files_done(&files);
}

static int read_fenced(const char *text, struct agt_files *files, char complaint[256])
{
    complaint[0] = '\0';
    return agt_fenced_read(text, strlen(text), terms_of_shop(), files, complaint, 256);
}

static void check_shop(struct agt_files *files)
{
    assert_string_equal(files->solution, "s = 1\n");
    assert_string_equal(files->tests, "t = 1\n");
    assert_string_equal(agt_files_find(files, "shop/cart.py"), "c = 1\n");
    assert_string_equal(agt_files_find(files, "data/rates.json"), "{\"a\": 1}\n");
    agt_files_done(files);
}

static void the_fenced_form_holds_further_files(void **state)
{
    struct agt_files files = AGT_FILES_INIT;
    char complaint[256];

    (void)state;
    if (read_fenced(TWO CART RATES, &files, complaint) != 0)
        fail_msg("%s", complaint);
    check_shop(&files);
    /* One of its own, which may be empty; and data keeps a first line that looks like a name. */
    assert_int_equal(
        read_fenced(RATES CART TWO "```python path=shop/__init__.py\n```\n", &files, complaint), 0);
    assert_string_equal(agt_files_find(&files, "shop/__init__.py"), "");
    check_shop(&files);
    assert_int_equal(
        read_fenced(TWO CART RATES "```text path=list.txt\nsolution.py\n```\n", &files, complaint),
        0);
    assert_string_equal(agt_files_find(&files, "list.txt"), "solution.py\n");
    check_shop(&files);
}

static void what_was_not_asked_for_is_refused_with_the_reason(void **state)
{
    static const struct {
        const char *text;
        const char *complaint;
    } bad[] = {
        {TWO CART, "data/rates.json is missing"},
        {TWO CART RATES "```text path=a\n1\n```\n```text path=b\n1\n```\n",
         "at most 1 of your own"},
        {TWO CART RATES CART, "two blocks for shop/cart.py"},
        {TWO CART RATES "```python path=../x.py\n1\n```\n", "begins with '.'"},
        {TWO CART RATES "```python path=conftest.py\n1\n```\n", "would load by itself"},
        {TWO CART RATES "```text path=data/prices.csv\n1\n```\n", "where another file"},
        {TWO CART RATES "```text path=data\n1\n```\n", "where another file"},
        {TWO CART RATES "```python\n1\n```\n", "names no file"},
    };

    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(bad); i++) {
        struct agt_files files = AGT_FILES_INIT;
        char complaint[256];

        if (read_fenced(bad[i].text, &files, complaint) != -EINVAL ||
            !strstr(complaint, bad[i].complaint))
            fail_msg("%zu: '%s' does not say '%s'", i, complaint, bad[i].complaint);
        assert_null(files.more);
    }
}

#define OBJECT                                                                                     \
    "{\"test_solution_py\":\"t = 1\",\"solution_py\":\"s = 1\",\"files\":["                        \
    "{\"path\":\"shop/cart.py\",\"text\":\"c = 1\"},"                                              \
    "{\"path\":\"data/rates.json\",\"text\":\"{\\\"a\\\": 1}\"}]}"

static int read_object(const char *json, const char *call, struct agt_files *files,
                       char complaint[256])
{
    const struct agt_answer answer = {
        .text = call[0] ? "" : json,
        .size = call[0] ? 0 : strlen(json),
        .call_name = call,
        .call_arguments = json,
        .terms = terms_of_shop(),
    };

    complaint[0] = '\0';
    return agt_answer_read(&answer, files, complaint, 256);
}

static void the_other_forms_hold_them_too(void **state)
{
    static const char *const bad[] = {
        "{\"test_solution_py\":\"t\",\"solution_py\":\"s\"}",
        "{\"test_solution_py\":\"t\",\"solution_py\":\"s\",\"files\":[{\"path\":\"a\"}]}",
        "{\"test_solution_py\":\"t\",\"solution_py\":\"s\",\"files\":"
        "[{\"path\":\"/etc/x\",\"text\":\"1\"}]}",
    };
    struct agt_files files = AGT_FILES_INIT;
    char complaint[256];

    (void)state;
    if (read_object(OBJECT, "", &files, complaint) != 0)
        fail_msg("%s", complaint);
    check_shop(&files);
    assert_int_equal(read_object(OBJECT, AGT_SUBMIT_NAME, &files, complaint), 0);
    check_shop(&files);
    for (size_t i = 0; i < CR_ARRAY_SIZE(bad); i++) {
        assert_int_equal(read_object(bad[i], "", &files, complaint), -EINVAL);
        assert_true(complaint[0] != '\0');
    }
    assert_non_null(strstr(agt_answer_schema(terms_of_shop()), "\"files\""));
    assert_null(strstr(agt_answer_schema(NULL), "\"files\""));
}

static void the_prompt_names_what_is_asked_for(void **state)
{
    const struct agt_prompt prompt = {.task = "A shop.", .terms = terms_of_shop()};
    CR_AUTO_BUF struct cr_buf text;

    (void)state;
    cr_buf_init(&text, AGT_PROMPT_MAX);
    assert_int_equal(agt_prompt_add(&prompt, &text), 0);
    assert_non_null(strstr(cr_buf_str(&text), "\n- shop/cart.py\n- data/rates.json\n"));
    assert_non_null(strstr(cr_buf_str(&text), "Up to 1 files of your own"));
}

static void another_file_is_another_answer(void **state)
{
    struct agt_files files = {.solution = cr_unconst("s = 1\n"), .tests = cr_unconst("t = 1\n")};
    struct agt_stall_marks two;
    struct agt_stall_marks three;
    struct agt_stall_marks commented;
    struct agt_stall_marks other;

    (void)state;
    agt_stall_mark_code(&files, &two);
    assert_int_equal(agt_files_put(&files, "a.py", strdup("a = 1\n")), 0);
    agt_stall_mark_code(&files, &three);
    assert_int_equal(agt_files_put(&files, "a.py", strdup("a = 1  # the same\n")), 0);
    agt_stall_mark_code(&files, &commented);
    assert_int_equal(agt_files_put(&files, "a.py", strdup("a = 2\n")), 0);
    agt_stall_mark_code(&files, &other);
    assert_string_not_equal(two.code, three.code);
    assert_string_equal(three.code, commented.code);
    assert_string_not_equal(three.code, other.code);
    files.solution = NULL;
    files.tests = NULL;
    agt_files_done(&files);
}

/* ---- verification looks at every file ---- */

#define FUNCTION(name) "def " name "(a):\n    return a + 1\n"

static void make_plan(const char *cart, Crisol__Agent__V1__VerificationLevel level,
                      struct agt_check_plan *plan)
{
    struct agt_files files = {
        .solution = cr_unconst("from shop.cart import total\n"),
        .tests =
            cr_unconst("from solution import total\ndef test_total():\n    assert total(1) == 2\n"),
    };

    *plan = (struct agt_check_plan){.seed = "0123456789abcdef0123456789abcdef0123456789abcdef"};
    assert_int_equal(agt_files_put(&files, "data.json", strdup("{}\n")), 0);
    assert_int_equal(agt_files_put(&files, "shop/cart.py", strdup(cart)), 0);
    assert_int_equal(agt_check_plan_make(&files, level, NULL, plan), 0);
    files.solution = NULL;
    files.tests = NULL;
    agt_files_done(&files);
}

static const struct agt_check_result *find_check(const struct agt_check_plan *plan,
                                                 const char *prefix, size_t *ret_index)
{
    for (size_t i = 0; i < plan->verification->check_count; i++) {
        *ret_index = i;
        if (strncmp(plan->verification->checks[i].name, prefix, strlen(prefix)) == 0)
            return &plan->verification->checks[i];
    }
    fail_msg("there is no check '%s'", prefix);
    return NULL;
}

static void stubs_empty_the_functions_of_every_file(void **state)
{
    struct agt_check_plan plan;
    size_t index;

    (void)state;
    make_plan(FUNCTION("total"), LEVEL(STUBS), &plan);
    assert_int_equal(find_check(&plan, "stubs that raise", &index)->outcome, OUTCOME(UNSPECIFIED));
    assert_null(plan.files[index].solution); /* it has no function */
    assert_non_null(plan.files[index].more);
    assert_null(plan.files[index].more[0]); /* data.json */
    assert_non_null(strstr(plan.files[index].more[1], "raise NotImplementedError"));
    assert_false(plan.tests_only_data);
    agt_check_plan_done(&plan);
}

static void mutants_are_spread_over_the_files(void **state)
{
    struct agt_check_plan plan;
    size_t index;

    (void)state;
    make_plan(FUNCTION("total"), LEVEL(MUTANTS), &plan);
    (void)find_check(&plan, "mutant: shop/cart.py line 2, '+'", &index);
    assert_non_null(strstr(plan.files[index].more[1], "a - 1"));
    agt_check_plan_done(&plan);
}

static void an_object_that_equals_everything_is_found_in_any_file(void **state)
{
    struct agt_check_plan plan;
    size_t index;

    (void)state;
    make_plan("class Any:\n    def __eq__(self, other):\n        return True\n" FUNCTION("total"),
              LEVEL(STUBS), &plan);
    assert_int_equal(find_check(&plan, "equality", &index)->outcome, OUTCOME(REFUTED));
    assert_non_null(strstr(plan.verification->checks[index].summary, "of shop/cart.py makes"));
    agt_check_plan_done(&plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(paths_that_do_harm_are_refused),
        cmocka_unit_test(files_are_sorted_replaced_and_bounded),
        cmocka_unit_test(the_fenced_form_holds_further_files),
        cmocka_unit_test(what_was_not_asked_for_is_refused_with_the_reason),
        cmocka_unit_test(the_other_forms_hold_them_too),
        cmocka_unit_test(the_prompt_names_what_is_asked_for),
        cmocka_unit_test(another_file_is_another_answer),
        cmocka_unit_test(stubs_empty_the_functions_of_every_file),
        cmocka_unit_test(mutants_are_spread_over_the_files),
        cmocka_unit_test(an_object_that_equals_everything_is_found_in_any_file),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
