/* SPDX-License-Identifier: Apache-2.0 */

/* The files of a request: those that it brings, and those that it collects. */
#include "common/auto.h"
#include "tests/unit/sandboxd/front/request_fixture.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- what it brings ---- */

static execute_request request_bringing(Crisol__Sandbox__V1__InputFile **files, size_t count)
{
    execute_request message = request_python(cr_unconst("1"));

    message.files = files;
    message.n_files = count;
    return message;
}

static void request_of_pytest_needs_files_only(void **state)
{
    Crisol__Sandbox__V1__InputFile file = CRISOL__SANDBOX__V1__INPUT_FILE__INIT;
    Crisol__Sandbox__V1__InputFile *files[] = {&file};
    execute_request message = request_python(cr_unconst(""));
    struct sbx_request request;
    struct rpc_status status;

    (void)state;
    message.runtime = cr_unconst("pytest");
    assert_int_equal(request_check(&message, &request, &status), -EINVAL);
    file.path = cr_unconst("test_a.py");
    message.files = files;
    message.n_files = 1;
    assert_int_equal(request_check(&message, &request, &status), 0);
    assert_true(sbx_request_wants_report(&message, &request));
}

static void request_refuses_every_bad_path(void **state)
{
    static char long_part[300];
    static char deep[] = "a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a";
    static const char *const bad[] = {
        "",     "/etc/passwd", "..",      "a/../b",    "../x",
        ".",    "a/./b",       "a//b",    "a/",        "a\nb",
        "a\tb", "\x7f",        ".crisol", ".crisol/x", ".crisol-report.xml",
        "\x1b", long_part,     deep,
    };
    Crisol__Sandbox__V1__InputFile file = CRISOL__SANDBOX__V1__INPUT_FILE__INIT;
    Crisol__Sandbox__V1__InputFile *files[] = {&file};
    execute_request message = request_bringing(files, 1);

    (void)state;
    memset(long_part, 'a', sizeof(long_part) - 1);
    for (size_t i = 0; i < CR_ARRAY_SIZE(bad); i++) {
        file.path = cr_unconst(bad[i]);
        request_refused(&message, "files[0].path", "");
    }
}

static void request_accepts_every_good_path(void **state)
{
    static const char *const good[] = {"a.py", "a/b.py",      "unicode-é.py", "-rf", "a b",
                                       "$(x)", "..a",         "a..",          "~",   "main.pyc",
                                       "CON",  "x/.crisol/y", ".hidden"};
    Crisol__Sandbox__V1__InputFile file = CRISOL__SANDBOX__V1__INPUT_FILE__INIT;
    Crisol__Sandbox__V1__InputFile *files[] = {&file};
    execute_request message = request_bringing(files, 1);

    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(good); i++) {
        file.path = cr_unconst(good[i]);
        request_accepted(&message);
    }
}

static void request_refuses_files_that_clash(void **state)
{
    static const struct {
        const char *first;
        const char *second;
        const char *field;
        const char *text;
    } rows[] = {
        {"a", "a", "files[1].path", "files[0]"},
        {"a/b", "a", "files[1].path", "folder"},
        {"a", "a/b/c", "files[1].path", "folder"},
        {"main.py", "x", "files[0].path", "main.py"},
        {"x", "main.py/y", "files[1].path", "main.py"},
    };

    Crisol__Sandbox__V1__InputFile file[2] = {CRISOL__SANDBOX__V1__INPUT_FILE__INIT,
                                              CRISOL__SANDBOX__V1__INPUT_FILE__INIT};
    Crisol__Sandbox__V1__InputFile *files[] = {&file[0], &file[1]};
    execute_request message = request_bringing(files, 2);

    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(rows); i++) {
        file[0].path = cr_unconst(rows[i].first);
        file[1].path = cr_unconst(rows[i].second);
        request_refused(&message, rows[i].field, rows[i].text);
    }
    file[0].path = cr_unconst("a");
    file[1].path = cr_unconst("a.b");
    request_accepted(&message);
}

static void request_finds_a_clash_among_names_that_sort_between(void **state)
{
    Crisol__Sandbox__V1__InputFile file[3];
    Crisol__Sandbox__V1__InputFile *files[] = {&file[0], &file[1], &file[2]};
    execute_request message = request_bringing(files, 3);

    (void)state;
    for (size_t i = 0; i < 3; i++)
        crisol__sandbox__v1__input_file__init(&file[i]);
    file[0].path = cr_unconst("a");
    file[1].path = cr_unconst("a-b"); /* '-' sorts before '/' */
    file[2].path = cr_unconst("a/c");
    request_refused(&message, "files[2].path", "folder");
}

/* Two that fill a message: compared component by component they would take minutes, in which the
 * service answers nobody. The deadline of the test is what fails. */
static void request_looks_no_deeper_into_paths_that_are_refused(void **state)
{
    enum {
        SIZE = 1900000,
    };

    Crisol__Sandbox__V1__InputFile file[2] = {CRISOL__SANDBOX__V1__INPUT_FILE__INIT,
                                              CRISOL__SANDBOX__V1__INPUT_FILE__INIT};
    Crisol__Sandbox__V1__InputFile *files[] = {&file[0], &file[1]};
    execute_request message = request_bringing(files, 2);
    CR_AUTO_FREE char *path = malloc(SIZE + 1);

    (void)state;
    assert_non_null(path);
    for (size_t i = 0; i < SIZE; i++)
        path[i] = i % 2 == 0 ? 'a' : '/';
    path[SIZE] = '\0';
    file[0].path = path;
    file[1].path = path;
    request_refused(&message, "files[0].path", "components");
    request_refused(&message, "files[1].path", "components");
}

static void request_checks_what_is_said_about_a_file(void **state)
{
    Crisol__Sandbox__V1__InputFile file = CRISOL__SANDBOX__V1__INPUT_FILE__INIT;
    Crisol__Sandbox__V1__InputFile *files[] = {&file};
    execute_request message = request_bringing(files, 1);

    (void)state;
    file.path = cr_unconst("a");
    file.mode = 04755;
    request_refused(&message, "files[0].mode", "04755");
    file.mode = 0777;
    request_accepted(&message);
    file.text = cr_unconst("x");
    file.data = (ProtobufCBinaryData){.len = 1, .data = cr_unconst("y")};
    request_refused(&message, "files[0].data", "not both");
}

static void request_files_must_fit_the_workspace(void **state)
{
    Crisol__Sandbox__V1__Limits limits = CRISOL__SANDBOX__V1__LIMITS__INIT;
    Crisol__Sandbox__V1__InputFile file = CRISOL__SANDBOX__V1__INPUT_FILE__INIT;
    Crisol__Sandbox__V1__InputFile *files[] = {&file};
    execute_request message = request_bringing(files, 1);
    static uint8_t content[(64U << 10) + 1];

    (void)state;
    limits.workspace_bytes = 64U << 10;
    message.limits = &limits;
    file.path = cr_unconst("a");
    file.data = (ProtobufCBinaryData){.len = sizeof(content), .data = content};
    request_refused(&message, "files", "limits.workspace_bytes");
}

/* ---- what it collects ---- */

static execute_request request_collecting(Crisol__Sandbox__V1__CollectSpec **specs)
{
    execute_request message = request_python(cr_unconst("1"));

    message.collect = specs;
    message.n_collect = 1;
    return message;
}

static void request_checks_collect(void **state)
{
    Crisol__Sandbox__V1__CollectSpec spec = CRISOL__SANDBOX__V1__COLLECT_SPEC__INIT;
    Crisol__Sandbox__V1__CollectSpec *specs[] = {&spec};
    execute_request message = request_collecting(specs);

    (void)state;
    spec.path = cr_unconst("../../etc/passwd");
    request_refused(&message, "collect[0].path", "'..'");
    spec.path = cr_unconst("out.txt");
    spec.max_bytes = SBX_COLLECT_BYTES_MAX + 1;
    request_refused(&message, "collect[0].max_bytes", "1048577");
    spec.max_bytes = 0;
    request_accepted(&message);
    assert_int_equal(sbx_collect_max_bytes(&spec), SBX_COLLECT_BYTES_MAX);
}

static void request_checks_patterns_of_collect(void **state)
{
    Crisol__Sandbox__V1__CollectSpec spec = CRISOL__SANDBOX__V1__COLLECT_SPEC__INIT;
    Crisol__Sandbox__V1__CollectSpec *specs[] = {&spec, &spec};
    execute_request message = request_collecting(specs);

    (void)state;
    spec.glob = cr_unconst("a**");
    request_refused(&message, "collect[0].glob", "'**'");
    spec.glob = cr_unconst("**/*.txt");
    request_accepted(&message);
    assert_int_equal(sbx_collect_max_files(&spec), SBX_COLLECT_FILES_DEFAULT);
    spec.path = cr_unconst("out.txt");
    request_refused(&message, "collect[0].glob", "not both");
    spec.path = cr_unconst("");
    spec.max_files = SBX_COLLECT_FILES_MAX + 1;
    request_refused(&message, "collect[0].max_files", "1025");
    spec.max_files = SBX_COLLECT_FILES_MAX;
    request_accepted(&message);
    message.n_collect = 2;
    request_refused(&message, "collect", "2048");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(request_of_pytest_needs_files_only),
        cmocka_unit_test(request_refuses_every_bad_path),
        cmocka_unit_test(request_accepts_every_good_path),
        cmocka_unit_test(request_refuses_files_that_clash),
        cmocka_unit_test(request_finds_a_clash_among_names_that_sort_between),
        cmocka_unit_test(request_looks_no_deeper_into_paths_that_are_refused),
        cmocka_unit_test(request_checks_what_is_said_about_a_file),
        cmocka_unit_test(request_files_must_fit_the_workspace),
        cmocka_unit_test(request_checks_collect),
        cmocka_unit_test(request_checks_patterns_of_collect),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
