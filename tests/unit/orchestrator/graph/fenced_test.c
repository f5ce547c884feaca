/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/err.h"
#include "orchestrator/graph/fenced.h"
#include "tests/harness/test.h"

#include <stdlib.h>
#include <string.h>

#define TESTS "```python path=test_solution.py\nt = 1\n```\n"
#define SOLUTION "```python path=solution.py\ns = 1\n```\n"

static const struct {
    const char *text;
    const char *solution;
    const char *tests;
} good[] = {
    {TESTS SOLUTION, "s = 1\n", "t = 1\n"},
    {SOLUTION "Some words.\n\n" TESTS "The end.", "s = 1\n", "t = 1\n"},
    /* Names: quoted, other keys, bare, attribute lists. */
    {"```python title=\"solution.py\"\ns = 1\n```\n```py file='test_solution.py'\nt = 1\n```",
     "s = 1\n", "t = 1\n"},
    {"```solution.py\ns = 1\n```\n```python test_solution.py\nt = 1\n```", "s = 1\n", "t = 1\n"},
    {"``` {path=solution.py}\ns = 1\n```\n``` filename:test_solution.py\nt = 1\n```", "s = 1\n",
     "t = 1\n"},
    {"```python\n# filename: solution.py\ns = 1\n```\n```python\n# test_solution.py\nt = 1\n```",
     "# filename: solution.py\ns = 1\n", "# test_solution.py\nt = 1\n"},
    {"```python\nsolution.py\ns = 1\n```\n```\ntest_solution.py\nt = 1\n```", "s = 1\n", "t = 1\n"},
    {"_solution.py_\n```python\ns = 1\n```\n" TESTS, "s = 1\n", "t = 1\n"},
    {"**solution.py**\n\n```python\ns = 1\n```\n### `test_solution.py`:\n```python\nt = 1\n```",
     "s = 1\n", "t = 1\n"},
    /* Two names that agree. */
    {"solution.py\n```python path=solution.py\n# solution.py\ns = 1\n```\n" TESTS,
     "# solution.py\ns = 1\n", "t = 1\n"},
    /* Fences: longer, tildes, indented, closed by a longer one, inner fences kept. */
    {"````python path=solution.py\n```\ns = 1\n```\n````\n" TESTS, "```\ns = 1\n```\n", "t = 1\n"},
    {"~~~python path=solution.py\n```\ns = 1\n~~\n~~~~\n" TESTS, "```\ns = 1\n~~\n", "t = 1\n"},
    {"  ```python path=solution.py\n    s = 1\n s2 = 2\n  ```\n" TESTS, "  s = 1\ns2 = 2\n",
     "t = 1\n"},
    {"```python path=solution.py\ns = '''\n    ```\n'''\n```\n" TESTS, "s = '''\n    ```\n'''\n",
     "t = 1\n"},
    {"```python path=solution.py\ns = 1\n``` x\n```   \n" TESTS, "s = 1\n``` x\n", "t = 1\n"},
    /* No line feed at the end; CRLF. */
    {TESTS "```python path=solution.py\ns = 1\n```", "s = 1\n", "t = 1\n"},
    {"```python path=solution.py\r\ns = 1\r\n```\r\n" TESTS, "s = 1\n", "t = 1\n"},
    /* Prose in other languages is left alone; so are backticks in a line. */
    {"```bash\npytest\n```\n" TESTS SOLUTION "```text\n1 passed\n```\n", "s = 1\n", "t = 1\n"},
    {"Run ```pytest``` now.\n``` a ` b\n" TESTS SOLUTION, "s = 1\n", "t = 1\n"},
    /* A comment that only looks like a name. */
    {"```python path=solution.py\n# file: what this is for\ns = 1\n```\n" TESTS,
     "# file: what this is for\ns = 1\n", "t = 1\n"},
    {"```python path=solution.py\n#!/usr/bin/env python3\ns = 1\n```\n" TESTS,
     "#!/usr/bin/env python3\ns = 1\n", "t = 1\n"},
    {"```python path=solution.py\ns = 'ñ 漢'\n```\n" TESTS, "s = 'ñ 漢'\n", "t = 1\n"},
};

static void good_answers_give_their_files(void **state)
{
    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(good); i++) {
        struct agt_files files = AGT_FILES_INIT;
        char complaint[512] = "";
        int r = agt_fenced_read(good[i].text, strlen(good[i].text), NULL, &files, complaint,
                                sizeof(complaint));

        if (r != 0)
            fail_msg("case %zu: %s", i, complaint);
        assert_string_equal(files.solution, good[i].solution);
        assert_string_equal(files.tests, good[i].tests);
        agt_files_done(&files);
    }
}

/* An underscore of a name is no dress of Markdown. */
static void further_files_are_named_before_their_blocks(void **state)
{
    static const char *const headings[] = {"### `_helpers.py`:", "**_helpers.py**", "- _helpers.py",
                                           "__`_helpers.py`__", "_helpers.py"};
    Crisol__Agent__V1__TaskTerms terms = CRISOL__AGENT__V1__TASK_TERMS__INIT;

    (void)state;
    terms.max_more_files = 1;
    for (size_t i = 0; i < CR_ARRAY_SIZE(headings); i++) {
        struct agt_files files = AGT_FILES_INIT;
        char complaint[512] = "";
        char text[512];

        (void)snprintf(text, sizeof(text),
                       TESTS SOLUTION "%s\n```python path=_helpers.py\nh = 1\n```\n", headings[i]);
        if (agt_fenced_read(text, strlen(text), &terms, &files, complaint, sizeof(complaint)) != 0)
            fail_msg("case %zu: %s", i, complaint);
        assert_string_equal(agt_files_find(&files, "_helpers.py"), "h = 1\n");
        agt_files_done(&files);
    }
}

static const struct {
    const char *text;
    const char *complaint;
} bad[] = {
    {"", "There is no fenced block"},
    {"def f(): pass", "There is no fenced block"},
    {TESTS, "The block for solution.py is missing."},
    {SOLUTION, "The block for test_solution.py is missing."},
    {TESTS SOLUTION SOLUTION, "two blocks for solution.py"},
    {TESTS SOLUTION "```python path=conftest.py\nx = 1\n```", "named 'conftest.py'"},
    {TESTS "```python path=../solution.py\ns = 1\n```", "named '../solution.py'"},
    {TESTS "```python path=./solution.py\ns = 1\n```", "named './solution.py'"},
    {TESTS "```python path=/solution.py\ns = 1\n```", "named '/solution.py'"},
    {TESTS "```python path=src/solution.py\ns = 1\n```", "named 'src/solution.py'"},
    {TESTS "```python path=Solution.py\ns = 1\n```", "named 'Solution.py'"},
    {TESTS "```python path=solution.py.\ns = 1\n```", "named 'solution.py.'"},
    {TESTS "```python path=solution.pyc\ns = 1\n```", "named 'solution.pyc'"},
    {TESTS "```python\n# filename: ../solution.py\ns = 1\n```", "named '../solution.py'"},
    {TESTS "```python\n# pytest.py\ns = 1\n```", "named 'pytest.py'"},
    {TESTS "```python path=solution.py title=test_solution.py\ns = 1\n```",
     "two different file names"},
    {TESTS "```python path=solution.py\n# test_solution.py\ns = 1\n```",
     "two different file names"},
    {TESTS "**test_solution.py**\n```python path=solution.py\ns = 1\n```",
     "two different file names"},
    {TESTS SOLUTION "```python\nprint(1)\n```", "The Python block at line 7 names no file"},
    {TESTS SOLUTION "```\nprint(1)\n```", "names no file"},
    {TESTS SOLUTION "```Python3\nprint(1)\n```", "names no file"},
    {TESTS "```python path=solution.py\n\n  \n```", "The block for solution.py is empty."},
    {TESTS "```python path=solution.py\ns = 1\n", "is not closed"},
    {TESTS "````python path=solution.py\ns = 1\n```\n", "is not closed"},
    {TESTS "~~~python path=solution.py\ns = 1\n```\n", "is not closed"},
    {TESTS "```python path=solution.py\ns = 1\n    ```\n", "is not closed"},
    /* A fence inside a file that was not fenced longer: the pieces do not fit. */
    {TESTS "```python path=solution.py\ns = '''\n```\nx\n```\n'''\n```\n", "names no file"},
    {TESTS "    ```python path=solution.py\n    s = 1\n    ```\n", "solution.py is missing"},
    {TESTS "```python path=solution.py\ns = '\xff'\n```\n", "not plain UTF-8"},
};

static void bad_answers_are_refused_with_the_reason(void **state)
{
    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(bad); i++) {
        struct agt_files files = AGT_FILES_INIT;
        char complaint[512] = "";
        int r = agt_fenced_read(bad[i].text, strlen(bad[i].text), NULL, &files, complaint,
                                sizeof(complaint));

        if (r != -EINVAL || !strstr(complaint, bad[i].complaint))
            fail_msg("case %zu: %d '%s' does not say '%s'", i, r, complaint, bad[i].complaint);
        assert_null(files.solution);
        assert_null(files.tests);
    }
}

static void nul_in_the_answer_is_refused(void **state)
{
    static const char text[] = TESTS "```python path=solution.py\ns = '\0'\n```\n";
    struct agt_files files = AGT_FILES_INIT;
    char complaint[512] = "";

    (void)state;
    assert_int_equal(
        agt_fenced_read(text, sizeof(text) - 1, NULL, &files, complaint, sizeof(complaint)),
        -EINVAL);
    assert_non_null(strstr(complaint, "not plain UTF-8"));
}

static void too_large_file_is_refused(void **state)
{
    static const char head[] = TESTS "```python path=solution.py\n";
    size_t size = sizeof(head) - 1 + AGT_FILE_MAX + 8;
    char *text = malloc(size);
    struct agt_files files = AGT_FILES_INIT;
    char complaint[512] = "";

    (void)state;
    assert_non_null(text);
    memset(text, '#', size);
    memcpy(text, head, sizeof(head) - 1);
    memcpy(text + size - 5, "\n```\n", 5);

    assert_int_equal(agt_fenced_read(text, size, NULL, &files, complaint, sizeof(complaint)),
                     -EINVAL);
    assert_non_null(strstr(complaint, "is larger than"));
    free(text);
}

/* Cut anywhere, an answer is whole, or refused: never half a file. */
static void answer_cut_anywhere_is_never_taken_in_part(void **state)
{
    static const char text[] = TESTS "words\n````python path=solution.py\ns = 1\ns = 2\n````";
    size_t whole = sizeof(text) - 1;

    (void)state;
    for (size_t size = 0; size <= whole; size++) {
        struct agt_files files = AGT_FILES_INIT;
        char complaint[512] = "";
        char *copy = malloc(size + 1); /* exact, so that ASan sees a read past it */
        int r;

        assert_non_null(copy);
        memcpy(copy, text, size);
        r = agt_fenced_read(copy, size, NULL, &files, complaint, sizeof(complaint));
        free(copy);
        assert_int_equal(r, size == whole ? 0 : -EINVAL);
        assert_true(r == 0 || complaint[0] != '\0');
        agt_files_done(&files);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_answers_give_their_files),
        cmocka_unit_test(further_files_are_named_before_their_blocks),
        cmocka_unit_test(bad_answers_are_refused_with_the_reason),
        cmocka_unit_test(nul_in_the_answer_is_refused),
        cmocka_unit_test(too_large_file_is_refused),
        cmocka_unit_test(answer_cut_anywhere_is_never_taken_in_part),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
