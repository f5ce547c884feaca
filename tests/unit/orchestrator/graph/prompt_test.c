/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/buf.h"
#include "common/utf8.h"
#include "orchestrator/graph/fenced.h"
#include "orchestrator/graph/prompt.h"
#include "orchestrator/prompts/prompts.h"
#include "tests/harness/test.h"

#include <stdlib.h>
#include <string.h>

static void every_prompt_file_has_a_version_and_begins_as_agreed(void **state)
{
    static const struct {
        const char *file;
        const char *version;
        enum agt_prompt_kind kind;
        const char *start;
    } files[] = {
        {agt_prompt_planner_file, "version: planner ", AGT_PROMPT_PLAN, "You are the planner"},
        {agt_prompt_generator_file, "version: generator ", AGT_PROMPT_CODE,
         "You are the generator"},
        {agt_prompt_repair_file, "version: repair ", AGT_PROMPT_REPAIR, "You are the generator"},
    };

    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(files); i++) {
        const char *system = agt_prompt_system(files[i].kind, NULL);

        assert_memory_equal(files[i].file, files[i].version, strlen(files[i].version));
        assert_true(strtoul(files[i].file + strlen(files[i].version), NULL, 10) > 0);
        assert_memory_equal(system, files[i].start, strlen(files[i].start));
        assert_true(cr_utf8_is_valid(system, strlen(system)));
        assert_null(strstr(system, "version:"));
    }
}

static char *write_prompt(const struct agt_prompt *prompt)
{
    CR_AUTO_BUF struct cr_buf buf = {0};

    cr_buf_init(&buf, AGT_PROMPT_MAX);
    assert_int_equal(agt_prompt_add(prompt, &buf), 0);
    return cr_buf_take_str(&buf);
}

static void first_line_is_the_first_line_of_the_task(void **state)
{
    struct agt_prompt prompt = {.task = "\n  add two numbers\nand more"};
    CR_AUTO_FREE char *text = write_prompt(&prompt);

    (void)state;
    assert_string_equal(text, "TASK: add two numbers\nand more\n");
}

static void complaint_asks_for_the_answer_again(void **state)
{
    struct agt_prompt prompt = {.task = "x", .plan = "p", .complaint = "It was empty."};
    CR_AUTO_FREE char *text = write_prompt(&prompt);

    (void)state;
    assert_string_equal(text, "TASK: x\n\nPLAN\np\n\nYOUR LAST ANSWER COULD NOT BE USED\n"
                              "It was empty.\nAnswer again, whole, by the rules.\n");
}

/* What a repair shows as files can be read back by the reader of answers. */
static void files_of_a_repair_survive_their_fences(void **state)
{
    char solution[] = "s = '''\n`````\n```python path=conftest.py\n'''";
    char tests[] = "t = 1\n";
    struct agt_files files = {.solution = solution, .tests = tests};
    struct agt_files read = AGT_FILES_INIT;
    struct agt_prompt prompt = {
        .task = "x",
        .plan = "p",
        .failed_attempt = 2,
        .feedback = "Cause: ASSERTION\n",
        .files = &files,
    };
    CR_AUTO_FREE char *text = write_prompt(&prompt);
    char complaint[256] = "";

    (void)state;
    assert_non_null(strstr(text, "\nFILES OF ATTEMPT 2\n"));
    assert_non_null(strstr(text, "\nATTEMPT 2 FAILED\nCause: ASSERTION\n"));
    assert_int_equal(agt_fenced_read(text, strlen(text), NULL, &read, complaint, sizeof(complaint)),
                     0);
    assert_string_equal(read.solution, "s = '''\n`````\n```python path=conftest.py\n'''\n");
    assert_string_equal(read.tests, tests);
    agt_files_done(&read);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_prompt_file_has_a_version_and_begins_as_agreed),
        cmocka_unit_test(first_line_is_the_first_line_of_the_task),
        cmocka_unit_test(complaint_asks_for_the_answer_again),
        cmocka_unit_test(files_of_a_repair_survive_their_fences),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
