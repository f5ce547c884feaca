/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/unconst.h"
#include "rpc/status.h"
#include "sandboxd/front/request.h"
#include "sandboxd/runtimes/table.h"
#include "tests/harness/test.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef Crisol__Sandbox__V1__ExecuteRequest execute_request;

static struct sbx_request_rules rules(void)
{
    return (struct sbx_request_rules){
        .maximum = sbx_maximum_limits,
        .runtimes = UINT32_MAX,
        .backend = CRISOL__SANDBOX__V1__BACKEND__BACKEND_NATIVE,
    };
}

static execute_request python(char *code)
{
    execute_request message = CRISOL__SANDBOX__V1__EXECUTE_REQUEST__INIT;

    message.runtime = cr_unconst("python");
    message.code = code;
    return message;
}

static int check(const execute_request *message, struct sbx_request *request,
                 struct rpc_status *status)
{
    struct sbx_request_rules all = rules();

    *status = (struct rpc_status)RPC_STATUS_INIT;
    return sbx_request_check(message, &all, request, status);
}

static bool has_violation(const struct rpc_status *status, const char *field, const char *text)
{
    for (size_t i = 0; i < status->violation_count; i++) {
        if (strcmp(status->violations[i].field, field) == 0 &&
            strstr(status->violations[i].description, text))
            return true;
    }
    return false;
}

/* Refused with INVALID_ARGUMENT for this field, with this text. */
static void assert_violation(const execute_request *message, const char *field, const char *text)
{
    struct sbx_request request;
    struct rpc_status status;

    assert_int_equal(check(message, &request, &status), -EINVAL);
    assert_int_equal(status.code, RPC_INVALID_ARGUMENT);
    if (!has_violation(&status, field, text))
        fail_msg("no violation of '%s' with '%s'; message is '%s'", field, text, status.message);
}

static void assert_accepted(const execute_request *message)
{
    struct sbx_request request;
    struct rpc_status status;

    if (check(message, &request, &status) != 0)
        fail_msg("refused: %s", status.message);
}

static void request_with_code_takes_every_default(void **state)
{
    execute_request message = python(cr_unconst("print(2+2)"));
    struct sbx_request request;
    struct rpc_status status;

    (void)state;
    assert_int_equal(check(&message, &request, &status), 0);

    assert_string_equal(sbx_request_runtime(&request)->name, "python");
    assert_memory_equal(&request.limits, &sbx_default_limits, sizeof(request.limits));
    assert_int_equal(request.requested, 0);
    assert_int_equal(request.on_overflow,
                     CRISOL__SANDBOX__V1__OVERFLOW_POLICY__OVERFLOW_POLICY_KILL);
    assert_false(request.as_text);
}

static void request_asks_for_text_in_either_place(void **state)
{
    Crisol__Sandbox__V1__OutputOptions output = CRISOL__SANDBOX__V1__OUTPUT_OPTIONS__INIT;
    execute_request message = python(cr_unconst("1"));
    struct sbx_request request;
    struct rpc_status status;

    (void)state;
    message.output_text = true;
    assert_int_equal(check(&message, &request, &status), 0);
    assert_true(request.as_text);

    message.output_text = false;
    message.output = &output;
    output.as_text = true;
    assert_int_equal(check(&message, &request, &status), 0);
    assert_true(request.as_text);
}

static void request_without_runtime_lists_the_known_ones(void **state)
{
    execute_request message = CRISOL__SANDBOX__V1__EXECUTE_REQUEST__INIT;

    (void)state;
    assert_violation(&message, "runtime", "python");
    assert_violation(&message, "runtime", "is required");
}

static void request_of_an_unknown_runtime_is_not_found(void **state)
{
    execute_request message = python(cr_unconst("1"));
    struct sbx_request request;
    struct rpc_status status;

    (void)state;
    message.runtime = cr_unconst("cobol");
    assert_int_equal(check(&message, &request, &status), -EINVAL);
    assert_int_equal(status.code, RPC_NOT_FOUND);
    assert_non_null(strstr(status.message, "'cobol'"));
    assert_non_null(strstr(status.message, "browser, c, c++, go, java, node, pytest, python"));
}

static void request_of_a_runtime_that_this_host_lacks_is_not_found(void **state)
{
    execute_request message = python(cr_unconst("1"));
    struct sbx_request_rules none = rules();
    struct rpc_status status = RPC_STATUS_INIT;
    struct sbx_request request;

    (void)state;
    none.runtimes = UINT32_C(1) << sbx_runtime_find("shell");
    assert_int_equal(sbx_request_check(&message, &none, &request, &status), -EINVAL);
    assert_int_equal(status.code, RPC_NOT_FOUND);
    assert_null(strstr(status.message, "pytest"));
}

static void request_for_what_does_not_exist_is_unimplemented_by_name(void **state)
{
    Crisol__Sandbox__V1__NetworkPolicy network = CRISOL__SANDBOX__V1__NETWORK_POLICY__INIT;
    execute_request message = python(cr_unconst("1"));
    struct sbx_request request;
    struct rpc_status status;

    (void)state;
    message.network = &network;
    assert_int_equal(check(&message, &request, &status), -EINVAL);
    assert_int_equal(status.code, RPC_UNIMPLEMENTED);
    assert_non_null(strstr(status.message, "network"));

    message.network = NULL;
    message.backend = CRISOL__SANDBOX__V1__BACKEND__BACKEND_DOCKER;
    assert_int_equal(check(&message, &request, &status), -EINVAL);
    assert_int_equal(status.code, RPC_UNIMPLEMENTED);
    assert_non_null(strstr(status.message, "BACKEND_DOCKER"));

    message.backend = CRISOL__SANDBOX__V1__BACKEND__BACKEND_NATIVE;
    assert_accepted(&message);
    message.backend = (Crisol__Sandbox__V1__Backend)99;
    assert_violation(&message, "backend", "99");
}

static void request_needs_exactly_one_of_code_and_command(void **state)
{
    char *command[] = {cr_unconst("/usr/bin/true"), cr_unconst("x")};
    execute_request message = python(cr_unconst(""));

    (void)state;
    assert_violation(&message, "code", "is required");
    message.n_command = 2;
    message.command = command;
    assert_accepted(&message);
    message.code = cr_unconst("1");
    assert_violation(&message, "command", "not both");
    message.code = cr_unconst("");
    command[0] = cr_unconst("true");
    assert_violation(&message, "command[0]", "absolute");
    command[0] = cr_unconst("/usr/bin/true");
    message.n_args = 1;
    message.args = command;
    assert_violation(&message, "args", "command");
}

static void request_of_pytest_needs_files_only(void **state)
{
    Crisol__Sandbox__V1__InputFile file = CRISOL__SANDBOX__V1__INPUT_FILE__INIT;
    Crisol__Sandbox__V1__InputFile *files[] = {&file};
    execute_request message = python(cr_unconst(""));
    struct sbx_request request;
    struct rpc_status status;

    (void)state;
    message.runtime = cr_unconst("pytest");
    assert_int_equal(check(&message, &request, &status), -EINVAL);
    file.path = cr_unconst("test_a.py");
    message.files = files;
    message.n_files = 1;
    assert_int_equal(check(&message, &request, &status), 0);
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
    execute_request message = python(cr_unconst("1"));

    (void)state;
    memset(long_part, 'a', sizeof(long_part) - 1);
    message.files = files;
    message.n_files = 1;
    for (size_t i = 0; i < CR_ARRAY_SIZE(bad); i++) {
        file.path = cr_unconst(bad[i]);
        assert_violation(&message, "files[0].path", "");
    }
}

static void request_accepts_every_good_path(void **state)
{
    static const char *const good[] = {"a.py", "a/b.py",      "unicode-é.py", "-rf", "a b",
                                       "$(x)", "..a",         "a..",          "~",   "main.pyc",
                                       "CON",  "x/.crisol/y", ".hidden"};
    Crisol__Sandbox__V1__InputFile file = CRISOL__SANDBOX__V1__INPUT_FILE__INIT;
    Crisol__Sandbox__V1__InputFile *files[] = {&file};
    execute_request message = python(cr_unconst("1"));

    (void)state;
    message.files = files;
    message.n_files = 1;
    for (size_t i = 0; i < CR_ARRAY_SIZE(good); i++) {
        file.path = cr_unconst(good[i]);
        assert_accepted(&message);
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
    execute_request message = python(cr_unconst("1"));

    (void)state;
    message.files = files;
    message.n_files = 2;
    for (size_t i = 0; i < CR_ARRAY_SIZE(rows); i++) {
        file[0].path = cr_unconst(rows[i].first);
        file[1].path = cr_unconst(rows[i].second);
        assert_violation(&message, rows[i].field, rows[i].text);
    }
    file[0].path = cr_unconst("a");
    file[1].path = cr_unconst("a.b");
    assert_accepted(&message);
}

static void request_finds_a_clash_among_names_that_sort_between(void **state)
{
    Crisol__Sandbox__V1__InputFile file[3];
    Crisol__Sandbox__V1__InputFile *files[] = {&file[0], &file[1], &file[2]};
    execute_request message = python(cr_unconst("1"));

    (void)state;
    for (size_t i = 0; i < 3; i++)
        crisol__sandbox__v1__input_file__init(&file[i]);
    file[0].path = cr_unconst("a");
    file[1].path = cr_unconst("a-b"); /* '-' sorts before '/' */
    file[2].path = cr_unconst("a/c");
    message.files = files;
    message.n_files = 3;
    assert_violation(&message, "files[2].path", "folder");
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
    execute_request message = python(cr_unconst("1"));
    CR_AUTO_FREE char *path = malloc(SIZE + 1);

    (void)state;
    assert_non_null(path);
    for (size_t i = 0; i < SIZE; i++)
        path[i] = i % 2 == 0 ? 'a' : '/';
    path[SIZE] = '\0';
    file[0].path = path;
    file[1].path = path;
    message.files = files;
    message.n_files = 2;
    assert_violation(&message, "files[0].path", "components");
    assert_violation(&message, "files[1].path", "components");
}

static void request_checks_what_is_said_about_a_file(void **state)
{
    Crisol__Sandbox__V1__InputFile file = CRISOL__SANDBOX__V1__INPUT_FILE__INIT;
    Crisol__Sandbox__V1__InputFile *files[] = {&file};
    execute_request message = python(cr_unconst("1"));

    (void)state;
    message.files = files;
    message.n_files = 1;
    file.path = cr_unconst("a");
    file.mode = 04755;
    assert_violation(&message, "files[0].mode", "04755");
    file.mode = 0777;
    assert_accepted(&message);
    file.text = cr_unconst("x");
    file.data = (ProtobufCBinaryData){.len = 1, .data = cr_unconst("y")};
    assert_violation(&message, "files[0].data", "not both");
}

static void request_files_must_fit_the_workspace(void **state)
{
    Crisol__Sandbox__V1__Limits limits = CRISOL__SANDBOX__V1__LIMITS__INIT;
    Crisol__Sandbox__V1__InputFile file = CRISOL__SANDBOX__V1__INPUT_FILE__INIT;
    Crisol__Sandbox__V1__InputFile *files[] = {&file};
    execute_request message = python(cr_unconst("1"));
    static uint8_t content[(64U << 10) + 1];

    (void)state;
    limits.workspace_bytes = 64U << 10;
    message.limits = &limits;
    file.path = cr_unconst("a");
    file.data = (ProtobufCBinaryData){.len = sizeof(content), .data = content};
    message.files = files;
    message.n_files = 1;
    assert_violation(&message, "files", "limits.workspace_bytes");
}

static void request_refuses_limits_out_of_range_naming_the_maximum(void **state)
{
    Crisol__Sandbox__V1__Limits limits = CRISOL__SANDBOX__V1__LIMITS__INIT;
    execute_request message = python(cr_unconst("1"));
    struct sbx_request request;
    struct rpc_status status;

    (void)state;
    message.limits = &limits;
    limits.wall_time_ms = 999999;
    limits.memory_bytes = 1;
    limits.processes = UINT32_MAX;
    assert_int_equal(check(&message, &request, &status), -EINVAL);
    assert_true(
        has_violation(&status, "limits.wall_time_ms", "999999 is more than the maximum of 300000"));
    assert_true(has_violation(&status, "limits.memory_bytes", "less than the minimum"));
    assert_true(has_violation(&status, "limits.processes", "more than the maximum"));
    assert_int_equal(status.violation_count, 3);
    assert_string_equal(status.violations[0].field, "limits.wall_time_ms");
}

static void request_notes_which_limits_were_asked_for(void **state)
{
    Crisol__Sandbox__V1__Limits limits = CRISOL__SANDBOX__V1__LIMITS__INIT;
    execute_request message = python(cr_unconst("1"));
    struct sbx_request request;
    struct rpc_status status;

    (void)state;
    message.limits = &limits;
    limits.wall_time_ms = 500;
    assert_int_equal(check(&message, &request, &status), 0);
    assert_int_equal(request.requested, 1U << SBX_LIMIT_WALL_TIME);
    assert_int_equal(request.limits.value[SBX_LIMIT_WALL_TIME], 500);
    assert_int_equal(request.limits.value[SBX_LIMIT_CPU_TIME], 500); /* follows the wall */
}

static void request_refuses_bad_environment(void **state)
{
    static const struct {
        const char *name;
        const char *text;
    } rows[] = {
        {"", "is not a name"},           {"1A", "is not a name"},
        {"A=B", "is not a name"},        {"A B", "is not a name"},
        {"LD_PRELOAD", "loader"},        {"LD_LIBRARY_PATH", "loader"},
        {"GLIBC_TUNABLES", "loader"},    {"PYTHONPATH", "interpreter"},
        {"NODE_OPTIONS", "interpreter"}, {"BASH_ENV", "interpreter"},
        {"ENV", "interpreter"},          {"PATH", "set by the sandbox"},
        {"HOME", "set by the sandbox"},  {"PYTEST_ADDOPTS", "interpreter"},
    };

    Crisol__Sandbox__V1__ExecuteRequest__EnvEntry entry =
        CRISOL__SANDBOX__V1__EXECUTE_REQUEST__ENV_ENTRY__INIT;
    Crisol__Sandbox__V1__ExecuteRequest__EnvEntry *env[] = {&entry, &entry};
    execute_request message = python(cr_unconst("1"));
    char field[64];

    (void)state;
    message.env = env;
    message.n_env = 1;
    for (size_t i = 0; i < CR_ARRAY_SIZE(rows); i++) {
        entry.key = cr_unconst(rows[i].name);
        (void)snprintf(field, sizeof(field), "env[\"%s\"]", rows[i].name);
        assert_violation(&message, field, rows[i].text);
    }
    entry.key = cr_unconst("GREETING");
    assert_accepted(&message);
    entry.key = cr_unconst("TZ");
    assert_accepted(&message);
    message.n_env = 2;
    assert_violation(&message, "env[\"TZ\"]", "twice");
}

static void request_refuses_too_much_of_anything(void **state)
{
    static char *args[SBX_ARGS_MAX + 1];
    static char huge[SBX_ARG_BYTES_MAX + 1];
    execute_request message = python(cr_unconst("1"));

    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(args); i++)
        args[i] = cr_unconst("x");
    message.args = args;
    message.n_args = SBX_ARGS_MAX;
    assert_accepted(&message);
    message.n_args = SBX_ARGS_MAX + 1;
    assert_violation(&message, "args", "1025 items");

    memset(huge, 'x', SBX_ARG_BYTES_MAX);
    args[3] = huge;
    message.n_args = 8;
    assert_violation(&message, "args[3]", "bytes are more");
    huge[SBX_ARG_BYTES_MAX - 1] = '\0';
    assert_accepted(&message);
    for (size_t i = 0; i < 16; i++)
        args[i] = huge;
    message.n_args = 16;
    assert_violation(&message, "args", "arguments and environment");

    message.n_args = 0;
    message.n_files = SBX_FILES_MAX + 1; /* counted before any is looked at */
    assert_violation(&message, "files", "1025 files");
    message.n_files = 0;
    message.n_env = SBX_ENV_MAX + 1;
    assert_violation(&message, "env", "257 variables");
    message.n_env = 0;
    message.n_collect = SBX_COLLECT_MAX + 1;
    assert_violation(&message, "collect", "65 files");
}

static void request_checks_collect(void **state)
{
    Crisol__Sandbox__V1__CollectSpec spec = CRISOL__SANDBOX__V1__COLLECT_SPEC__INIT;
    Crisol__Sandbox__V1__CollectSpec *specs[] = {&spec};
    execute_request message = python(cr_unconst("1"));

    (void)state;
    message.collect = specs;
    message.n_collect = 1;
    spec.path = cr_unconst("../../etc/passwd");
    assert_violation(&message, "collect[0].path", "'..'");
    spec.path = cr_unconst("out.txt");
    spec.max_bytes = SBX_COLLECT_BYTES_MAX + 1;
    assert_violation(&message, "collect[0].max_bytes", "1048577");
    spec.max_bytes = 0;
    assert_accepted(&message);
    assert_int_equal(sbx_collect_max_bytes(&spec), SBX_COLLECT_BYTES_MAX);
}

static void request_checks_patterns_of_collect(void **state)
{
    Crisol__Sandbox__V1__CollectSpec spec = CRISOL__SANDBOX__V1__COLLECT_SPEC__INIT;
    Crisol__Sandbox__V1__CollectSpec *specs[] = {&spec, &spec};
    execute_request message = python(cr_unconst("1"));

    (void)state;
    message.collect = specs;
    message.n_collect = 1;
    spec.glob = cr_unconst("a**");
    assert_violation(&message, "collect[0].glob", "'**'");
    spec.glob = cr_unconst("**/*.txt");
    assert_accepted(&message);
    assert_int_equal(sbx_collect_max_files(&spec), SBX_COLLECT_FILES_DEFAULT);
    spec.path = cr_unconst("out.txt");
    assert_violation(&message, "collect[0].glob", "not both");
    spec.path = cr_unconst("");
    spec.max_files = SBX_COLLECT_FILES_MAX + 1;
    assert_violation(&message, "collect[0].max_files", "1025");
    spec.max_files = SBX_COLLECT_FILES_MAX;
    assert_accepted(&message);
    message.n_collect = 2;
    assert_violation(&message, "collect", "2048");
}

static void request_checks_id_stdin_and_policy(void **state)
{
    Crisol__Sandbox__V1__OutputOptions output = CRISOL__SANDBOX__V1__OUTPUT_OPTIONS__INIT;
    execute_request message = python(cr_unconst("1"));
    char id[SBX_REQUEST_ID_MAX + 2];

    (void)state;
    message.request_id = cr_unconst("a/b\r\n");
    assert_violation(&message, "request_id", "letters");
    memset(id, 'x', sizeof(id) - 1);
    id[sizeof(id) - 1] = '\0';
    message.request_id = id;
    assert_violation(&message, "request_id", "65 characters");
    id[SBX_REQUEST_ID_MAX] = '\0';
    assert_accepted(&message);
    message.stdin_text = cr_unconst("a");
    message.stdin_data = (ProtobufCBinaryData){.len = 1, .data = cr_unconst("b")};
    assert_violation(&message, "stdin_data", "not both");
    message.stdin_data.len = 0;
    output.on_overflow = (Crisol__Sandbox__V1__OverflowPolicy)7;
    message.output = &output;
    assert_violation(&message, "output.on_overflow", "7");
    output.on_overflow = (Crisol__Sandbox__V1__OverflowPolicy)-1;
    assert_violation(&message, "output.on_overflow", "-1");
}

static void request_reports_several_violations_at_once(void **state)
{
    Crisol__Sandbox__V1__Limits limits = CRISOL__SANDBOX__V1__LIMITS__INIT;
    execute_request message = python(cr_unconst(""));
    struct sbx_request request;
    struct rpc_status status;

    (void)state;
    message.request_id = cr_unconst("!");
    message.limits = &limits;
    limits.open_files = 1;
    assert_int_equal(check(&message, &request, &status), -EINVAL);
    assert_true(has_violation(&status, "request_id", ""));
    assert_true(has_violation(&status, "limits.open_files", ""));
    assert_true(has_violation(&status, "code", ""));
}

/* Run is served with the type of Execute: their fields must stay the same. */
static void request_of_run_is_that_of_execute_field_for_field(void **state)
{
    const ProtobufCMessageDescriptor *a = &crisol__sandbox__v1__execute_request__descriptor;
    const ProtobufCMessageDescriptor *b = &crisol__sandbox__v1__run_request__descriptor;

    (void)state;
    assert_int_equal(a->n_fields, b->n_fields);
    for (unsigned int i = 0; i < a->n_fields; i++) {
        assert_string_equal(a->fields[i].name, b->fields[i].name);
        assert_int_equal(a->fields[i].id, b->fields[i].id);
        assert_int_equal(a->fields[i].type, b->fields[i].type);
        assert_int_equal(a->fields[i].label, b->fields[i].label);
        if (strcmp(a->fields[i].name, "env") != 0)
            assert_ptr_equal(a->fields[i].descriptor, b->fields[i].descriptor);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(request_with_code_takes_every_default),
        cmocka_unit_test(request_asks_for_text_in_either_place),
        cmocka_unit_test(request_without_runtime_lists_the_known_ones),
        cmocka_unit_test(request_of_an_unknown_runtime_is_not_found),
        cmocka_unit_test(request_of_a_runtime_that_this_host_lacks_is_not_found),
        cmocka_unit_test(request_for_what_does_not_exist_is_unimplemented_by_name),
        cmocka_unit_test(request_needs_exactly_one_of_code_and_command),
        cmocka_unit_test(request_of_pytest_needs_files_only),
        cmocka_unit_test(request_refuses_every_bad_path),
        cmocka_unit_test(request_accepts_every_good_path),
        cmocka_unit_test(request_refuses_files_that_clash),
        cmocka_unit_test(request_finds_a_clash_among_names_that_sort_between),
        cmocka_unit_test(request_looks_no_deeper_into_paths_that_are_refused),
        cmocka_unit_test(request_checks_what_is_said_about_a_file),
        cmocka_unit_test(request_files_must_fit_the_workspace),
        cmocka_unit_test(request_refuses_limits_out_of_range_naming_the_maximum),
        cmocka_unit_test(request_notes_which_limits_were_asked_for),
        cmocka_unit_test(request_refuses_bad_environment),
        cmocka_unit_test(request_refuses_too_much_of_anything),
        cmocka_unit_test(request_checks_collect),
        cmocka_unit_test(request_checks_patterns_of_collect),
        cmocka_unit_test(request_checks_id_stdin_and_policy),
        cmocka_unit_test(request_reports_several_violations_at_once),
        cmocka_unit_test(request_of_run_is_that_of_execute_field_for_field),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
