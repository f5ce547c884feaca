/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "orchestrator/graph/answer.h"
#include "tests/harness/test.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#define FORM(name) CRISOL__AGENT__V1__ANSWER_FORM__ANSWER_FORM_##name
#define OBJECT "{\"test_solution_py\": \"t = 1\\n\", \"solution_py\": \"s = 1\", \"notes\": 1}"
#define FENCES                                                                                     \
    "```python path=test_solution.py\nt = 1\n```\n```python path=solution.py\ns = 1\n```\n"

static int read_answer(const char *text, const char *name, const char *arguments,
                       struct agt_files *files, char complaint[256])
{
    const struct agt_answer answer = {
        .text = text, .size = strlen(text), .call_name = name, .call_arguments = arguments};

    complaint[0] = 0;
    return agt_answer_read(&answer, files, complaint, 256);
}

static void every_form_is_read_whichever_was_asked_for(void **state)
{
    static const struct {
        const char *text;
        const char *name;
        const char *arguments;
    } answers[] = {
        {FENCES, "", ""},
        {"Here they are.\n\n" FENCES, NULL, NULL},
        {OBJECT, "", ""},
        {"\n " OBJECT "\n", "", ""},
        {"```json\n" OBJECT "\n```\n", "", ""},
        /* What the program will read, and then the files. */
        {"```json\n{\"a\": 1}\n```\n" FENCES, "", ""},
        {"{\"solution.py\": \"s = 1\\n\", \"test_solution.py\": \"t = 1\\n\"}", "", ""},
        {"", "submit_files", OBJECT},
        {"I hand them in.", "submit_files", OBJECT},
        {"<think>\n```python path=solution.py\nwrong\n```\n</think>\n" FENCES, "", ""},
        {"<think>hm</think>" OBJECT, "", ""},
        {"THOUGHT: the user wants {two} files.\nSo: ```no block```.\n\n" FENCES, "", ""},
        {"\nTHOUGHT:\nan object\n" OBJECT, "", ""},
    };

    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(answers); i++) {
        struct agt_files files = AGT_FILES_INIT;
        char complaint[256];

        if (read_answer(answers[i].text, answers[i].name, answers[i].arguments, &files,
                        complaint) != 0)
            fail_msg("%zu: %s", i, complaint);
        assert_string_equal(files.solution, "s = 1\n");
        assert_string_equal(files.tests, "t = 1\n");
        agt_files_done(&files);
    }
}

static void what_is_wrong_is_said(void **state)
{
    static const struct {
        const char *text;
        const char *name;
        const char *arguments;
        const char *word;
    } answers[] = {
        {"{\"solution_py\": \"s\"}", "", "", "test_solution_py"},
        {"{\"solution_py\": 5, \"test_solution_py\": \"t\"}", "", "", "solution_py"},
        {"{\"solution_py\": \" \", \"test_solution_py\": \"t\"}", "", "", "nothing in solution_py"},
        {"{\"solution_py\": \"a\\\\nb\", \"test_solution_py\": \"t\"}", "", "", "escaped twice"},
        {"{\"solution_py\": \"s", "", "", "cannot be read"},
        {"{\"solution_py\": \"s\"} and more", "", "", "cannot be read"},
        {"", "submit_files", "[]", "solution_py"},
        {"", "submit_files", "", "cannot be read"},
        {"", "other", "{}", "you called other"},
        {"no file at all", "", "", ""},
        {"<think>never closed " FENCES, "", "", ""},
    };

    (void)state;
    for (size_t i = 0; i + 1 < CR_ARRAY_SIZE(answers); i++) {
        struct agt_files files = AGT_FILES_INIT;
        char complaint[256];

        assert_int_equal(
            read_answer(answers[i].text, answers[i].name, answers[i].arguments, &files, complaint),
            -EINVAL);
        assert_string_not_equal(complaint, "");
        if (!strstr(complaint, answers[i].word))
            fail_msg("%zu: %s", i, complaint);
        assert_null(files.solution);
    }
}

static void the_form_changes_after_a_failure(void **state)
{
    (void)state;
    assert_int_equal(agt_answer_form(0, 0), FORM(FENCED));
    assert_int_equal(agt_answer_form(0, 1), FORM(JSON));
    assert_int_equal(agt_answer_form(FORM(FENCED), 2), FORM(CALL));
    assert_int_equal(agt_answer_form(FORM(JSON), 0), FORM(JSON));
    assert_int_equal(agt_answer_form(FORM(JSON), 1), FORM(FENCED));
    assert_int_equal(agt_answer_form(FORM(CALL), 0), FORM(CALL));
    assert_int_equal(agt_answer_form(FORM(CALL), 1), FORM(FENCED));
    assert_int_equal(agt_answer_form(FORM(CALL), 9), FORM(JSON));
    assert_null(agt_answer_rules(FORM(FENCED)));
    assert_non_null(strstr(agt_answer_rules(FORM(JSON)), "solution_py"));
    assert_non_null(strstr(agt_answer_rules(FORM(CALL)), AGT_SUBMIT_NAME));
}

static void the_schema_is_json(void **state)
{
    cJSON *schema = cJSON_Parse(agt_answer_schema(NULL));

    (void)state;
    assert_non_null(schema);
    assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(schema, "required")), 2);
    cJSON_Delete(schema);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_form_is_read_whichever_was_asked_for),
        cmocka_unit_test(what_is_wrong_is_said),
        cmocka_unit_test(the_form_changes_after_a_failure),
        cmocka_unit_test(the_schema_is_json),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
