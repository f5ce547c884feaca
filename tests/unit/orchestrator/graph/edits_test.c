/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/err.h"
#include "common/unconst.h"
#include "orchestrator/graph/edits.h"
#include "orchestrator/graph/files.h"
#include "rpc/status.h"
#include "tests/harness/test.h"

#include <stdlib.h>
#include <string.h>

#define TEXT "x = 1\n"

/* Asks for data/rates.json, allows one more; inputs/ is the task's. */
static Crisol__Agent__V1__TaskTerms *terms(void)
{
    static Crisol__Agent__V1__TaskTerms message;
    static Crisol__Agent__V1__File input;
    static Crisol__Agent__V1__File *inputs[] = {&input};
    static char *wanted[1];

    crisol__agent__v1__task_terms__init(&message);
    crisol__agent__v1__file__init(&input);
    input.path = cr_unconst("inputs/a.csv");
    wanted[0] = cr_unconst("data/rates.json");
    message.output_files = wanted;
    message.n_output_files = 1;
    message.max_more_files = 1;
    message.input_files = inputs;
    message.n_input_files = 1;
    return &message;
}

static void put(struct agt_files *files, const char *path, size_t size)
{
    char *text = malloc(size + 1);

    assert_non_null(text);
    memset(text, 'a', size);
    text[size] = '\0';
    assert_int_equal(agt_files_put(files, path, text), 0);
}

/* What an answer to those terms has. */
static void answer(struct agt_files *files)
{
    *files = (struct agt_files)AGT_FILES_INIT;
    put(files, "data/rates.json", 3);
}

static void assert_named(const struct rpc_status *status, const char *field, const char *text)
{
    assert_int_equal(status->code, RPC_INVALID_ARGUMENT);
    assert_int_equal(status->violation_count, 1);
    assert_string_equal(status->violations[0].field, field);
    if (!strstr(status->violations[0].description, text))
        fail_msg("'%s' is not in '%s'", text, status->violations[0].description);
}

static void what_an_answer_may_have_can_be_put_in(void **state)
{
    const struct agt_edits edits = {.files = {{"solution.py", TEXT},
                                              {"test_solution.py", TEXT},
                                              {"data/rates.json", "{}"},
                                              {"shop/cart.py", TEXT}},
                                    .file_count = 4};
    struct rpc_status status = RPC_STATUS_INIT;
    struct agt_files files;

    (void)state;
    answer(&files);
    agt_edits_check(&edits, AGT_NODE_GENERATOR, terms(), &files, &status);
    assert_int_equal(status.code, RPC_OK);
    assert_int_equal(files.more_count, 1); /* it was only looked at */
    agt_files_done(&files);
}

static const struct {
    struct agt_edits edits;
    const char *field;
    const char *text;
} bad[] = {
    {{.files = {{"solution.py", TEXT}, {"../x", TEXT}}, .file_count = 2}, "files[1].path", "part"},
    {{.files = {{"conftest.py", TEXT}}, .file_count = 1}, "files[0].path", "pytest"},
    {{.files = {{"a.py", TEXT}, {"b.py", TEXT}}, .file_count = 2}, "files[1].path", "at most 1 of"},
    {{.files = {{"inputs/a.csv", TEXT}}, .file_count = 1}, "files[0].path", "lies where another"},
    {{.files = {{"data", TEXT}}, .file_count = 1}, "files[0].path", "lies where another"},
    {{.files = {{"a.py", TEXT}, {"solution.py", TEXT}, {"a.py", TEXT}}, .file_count = 3},
     "files[2].path",
     "files[0], too"},
    {{.files = {{"solution.py", ""}}, .file_count = 1}, "files[0].text", "1 to 262144 bytes"},
    {{.files = {{"solution.py", "\xff"}}, .file_count = 1}, "files[0].text", "UTF-8"},
    {{.plan = "\xff"}, "plan", "behind the planner"},
};

static void what_it_may_not_have_is_named(void **state)
{
    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(bad); i++) {
        struct rpc_status status = RPC_STATUS_INIT;
        struct agt_files files;

        answer(&files);
        agt_edits_check(&bad[i].edits, AGT_NODE_GENERATOR, terms(), &files, &status);
        assert_named(&status, bad[i].field, bad[i].text);
        agt_files_done(&files);
    }
}

static void a_task_without_further_files_takes_none(void **state)
{
    const struct agt_edits edits = {.files = {{"a.py", TEXT}}, .file_count = 1};
    const struct agt_files files = AGT_FILES_INIT;
    struct rpc_status status = RPC_STATUS_INIT;

    (void)state;
    agt_edits_check(&edits, AGT_NODE_GENERATOR, NULL, &files, &status);
    assert_named(&status, "files[0].path", "max_more_files");
}

static void files_beyond_the_bounds_are_named(void **state)
{
    const struct agt_edits edits = {.files = {{"one_too_many", TEXT}}, .file_count = 1};
    Crisol__Agent__V1__TaskTerms *many = terms();
    struct rpc_status status = RPC_STATUS_INIT;
    struct agt_files files = AGT_FILES_INIT;

    (void)state;
    many->max_more_files = AGT_MORE_FILES_MAX;
    for (char path[] = "a"; files.more_count < AGT_MORE_FILES_MAX; path[0]++)
        put(&files, path, 1);
    agt_edits_check(&edits, AGT_NODE_GENERATOR, many, &files, &status);
    assert_named(&status, "files[0].path", "14 ");
    agt_files_done(&files);
}

static void bytes_beyond_the_bounds_are_named(void **state)
{
    const struct agt_edits most = {.files = {{"data/rates.json", "1234"}}, .file_count = 1};
    const struct agt_edits more = {.files = {{"data/rates.json", "12345"}}, .file_count = 1};
    struct rpc_status status = RPC_STATUS_INIT;
    struct agt_files files;

    (void)state;
    answer(&files);
    put(&files, "a", AGT_MORE_BYTES_MAX - 4); /* what is replaced counts no more */
    agt_edits_check(&most, AGT_NODE_GENERATOR, terms(), &files, &status);
    assert_int_equal(status.code, RPC_OK);
    agt_edits_check(&more, AGT_NODE_GENERATOR, terms(), &files, &status);
    assert_named(&status, "files[0].text", "524288 bytes");
    agt_files_done(&files);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_an_answer_may_have_can_be_put_in),
        cmocka_unit_test(what_it_may_not_have_is_named),
        cmocka_unit_test(a_task_without_further_files_takes_none),
        cmocka_unit_test(files_beyond_the_bounds_are_named),
        cmocka_unit_test(bytes_beyond_the_bounds_are_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
