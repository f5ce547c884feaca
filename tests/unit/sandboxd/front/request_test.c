/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "sandboxd/runtimes/table.h"
#include "tests/unit/sandboxd/front/request_fixture.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static void request_with_code_takes_every_default(void **state)
{
    execute_request message = request_python(cr_unconst("print(2+2)"));
    struct sbx_request request;
    struct rpc_status status;

    (void)state;
    assert_int_equal(request_check(&message, &request, &status), 0);

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
    execute_request message = request_python(cr_unconst("1"));
    struct sbx_request request;
    struct rpc_status status;

    (void)state;
    message.output_text = true;
    assert_int_equal(request_check(&message, &request, &status), 0);
    assert_true(request.as_text);

    message.output_text = false;
    message.output = &output;
    output.as_text = true;
    assert_int_equal(request_check(&message, &request, &status), 0);
    assert_true(request.as_text);
}

static void request_without_runtime_lists_the_known_ones(void **state)
{
    execute_request message = CRISOL__SANDBOX__V1__EXECUTE_REQUEST__INIT;

    (void)state;
    request_refused(&message, "runtime", "python");
    request_refused(&message, "runtime", "is required");
}

static void request_of_an_unknown_runtime_is_not_found(void **state)
{
    execute_request message = request_python(cr_unconst("1"));
    struct sbx_request request;
    struct rpc_status status;

    (void)state;
    message.runtime = cr_unconst("cobol");
    assert_int_equal(request_check(&message, &request, &status), -EINVAL);
    assert_int_equal(status.code, RPC_NOT_FOUND);
    assert_non_null(strstr(status.message, "'cobol'"));
    assert_non_null(strstr(status.message, "browser, c, c++, go, java, node, pytest, python"));
}

static void request_of_a_runtime_that_this_host_lacks_is_not_found(void **state)
{
    execute_request message = request_python(cr_unconst("1"));
    struct sbx_request_rules none = request_rules();
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
    execute_request message = request_python(cr_unconst("1"));
    struct sbx_request request;
    struct rpc_status status;

    (void)state;
    message.network = &network;
    assert_int_equal(request_check(&message, &request, &status), -EINVAL);
    assert_int_equal(status.code, RPC_UNIMPLEMENTED);
    assert_non_null(strstr(status.message, "network"));

    message.network = NULL;
    message.backend = CRISOL__SANDBOX__V1__BACKEND__BACKEND_DOCKER;
    assert_int_equal(request_check(&message, &request, &status), -EINVAL);
    assert_int_equal(status.code, RPC_UNIMPLEMENTED);
    assert_non_null(strstr(status.message, "BACKEND_DOCKER"));

    message.backend = CRISOL__SANDBOX__V1__BACKEND__BACKEND_NATIVE;
    request_accepted(&message);
    message.backend = (Crisol__Sandbox__V1__Backend)99;
    request_refused(&message, "backend", "99");
}

static void request_needs_exactly_one_of_code_and_command(void **state)
{
    char *command[] = {cr_unconst("/usr/bin/true"), cr_unconst("x")};
    execute_request message = request_python(cr_unconst(""));

    (void)state;
    request_refused(&message, "code", "is required");
    message.n_command = 2;
    message.command = command;
    request_accepted(&message);
    message.code = cr_unconst("1");
    request_refused(&message, "command", "not both");
    message.code = cr_unconst("");
    command[0] = cr_unconst("true");
    request_refused(&message, "command[0]", "absolute");
    command[0] = cr_unconst("/usr/bin/true");
    message.n_args = 1;
    message.args = command;
    request_refused(&message, "args", "command");
}

static void request_refuses_limits_out_of_range_naming_the_maximum(void **state)
{
    Crisol__Sandbox__V1__Limits limits = CRISOL__SANDBOX__V1__LIMITS__INIT;
    execute_request message = request_python(cr_unconst("1"));
    struct sbx_request request;
    struct rpc_status status;

    (void)state;
    message.limits = &limits;
    limits.wall_time_ms = 999999;
    limits.memory_bytes = 1;
    limits.processes = UINT32_MAX;
    assert_int_equal(request_check(&message, &request, &status), -EINVAL);
    assert_true(request_has_violation(&status, "limits.wall_time_ms",
                                      "999999 is more than the maximum of 300000"));
    assert_true(request_has_violation(&status, "limits.memory_bytes", "less than the minimum"));
    assert_true(request_has_violation(&status, "limits.processes", "more than the maximum"));
    assert_int_equal(status.violation_count, 3);
    assert_string_equal(status.violations[0].field, "limits.wall_time_ms");
}

static void request_notes_which_limits_were_asked_for(void **state)
{
    Crisol__Sandbox__V1__Limits limits = CRISOL__SANDBOX__V1__LIMITS__INIT;
    execute_request message = request_python(cr_unconst("1"));
    struct sbx_request request;
    struct rpc_status status;

    (void)state;
    message.limits = &limits;
    limits.wall_time_ms = 500;
    assert_int_equal(request_check(&message, &request, &status), 0);
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
    execute_request message = request_python(cr_unconst("1"));
    char field[64];

    (void)state;
    message.env = env;
    message.n_env = 1;
    for (size_t i = 0; i < CR_ARRAY_SIZE(rows); i++) {
        entry.key = cr_unconst(rows[i].name);
        (void)snprintf(field, sizeof(field), "env[\"%s\"]", rows[i].name);
        request_refused(&message, field, rows[i].text);
    }
    entry.key = cr_unconst("GREETING");
    request_accepted(&message);
    entry.key = cr_unconst("TZ");
    request_accepted(&message);
    message.n_env = 2;
    request_refused(&message, "env[\"TZ\"]", "twice");
}

static void request_refuses_too_much_of_anything(void **state)
{
    static char *args[SBX_ARGS_MAX + 1];
    static char huge[SBX_ARG_BYTES_MAX + 1];
    execute_request message = request_python(cr_unconst("1"));

    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(args); i++)
        args[i] = cr_unconst("x");
    message.args = args;
    message.n_args = SBX_ARGS_MAX;
    request_accepted(&message);
    message.n_args = SBX_ARGS_MAX + 1;
    request_refused(&message, "args", "1025 items");

    memset(huge, 'x', SBX_ARG_BYTES_MAX);
    args[3] = huge;
    message.n_args = 8;
    request_refused(&message, "args[3]", "bytes are more");
    huge[SBX_ARG_BYTES_MAX - 1] = '\0';
    request_accepted(&message);
    for (size_t i = 0; i < 16; i++)
        args[i] = huge;
    message.n_args = 16;
    request_refused(&message, "args", "arguments and environment");

    message.n_args = 0;
    message.n_files = SBX_FILES_MAX + 1; /* counted before any is looked at */
    request_refused(&message, "files", "1025 files");
    message.n_files = 0;
    message.n_env = SBX_ENV_MAX + 1;
    request_refused(&message, "env", "257 variables");
    message.n_env = 0;
    message.n_collect = SBX_COLLECT_MAX + 1;
    request_refused(&message, "collect", "65 files");
}

static void request_checks_id_stdin_and_policy(void **state)
{
    Crisol__Sandbox__V1__OutputOptions output = CRISOL__SANDBOX__V1__OUTPUT_OPTIONS__INIT;
    execute_request message = request_python(cr_unconst("1"));
    char id[SBX_REQUEST_ID_MAX + 2];

    (void)state;
    message.request_id = cr_unconst("a/b\r\n");
    request_refused(&message, "request_id", "letters");
    memset(id, 'x', sizeof(id) - 1);
    id[sizeof(id) - 1] = '\0';
    message.request_id = id;
    request_refused(&message, "request_id", "65 characters");
    id[SBX_REQUEST_ID_MAX] = '\0';
    request_accepted(&message);
    message.stdin_text = cr_unconst("a");
    message.stdin_data = (ProtobufCBinaryData){.len = 1, .data = cr_unconst("b")};
    request_refused(&message, "stdin_data", "not both");
    message.stdin_data.len = 0;
    output.on_overflow = (Crisol__Sandbox__V1__OverflowPolicy)7;
    message.output = &output;
    request_refused(&message, "output.on_overflow", "7");
    output.on_overflow = (Crisol__Sandbox__V1__OverflowPolicy)-1;
    request_refused(&message, "output.on_overflow", "-1");
}

static void request_reports_several_violations_at_once(void **state)
{
    Crisol__Sandbox__V1__Limits limits = CRISOL__SANDBOX__V1__LIMITS__INIT;
    execute_request message = request_python(cr_unconst(""));
    struct sbx_request request;
    struct rpc_status status;

    (void)state;
    message.request_id = cr_unconst("!");
    message.limits = &limits;
    limits.open_files = 1;
    assert_int_equal(request_check(&message, &request, &status), -EINVAL);
    assert_true(request_has_violation(&status, "request_id", ""));
    assert_true(request_has_violation(&status, "limits.open_files", ""));
    assert_true(request_has_violation(&status, "code", ""));
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
        cmocka_unit_test(request_refuses_limits_out_of_range_naming_the_maximum),
        cmocka_unit_test(request_notes_which_limits_were_asked_for),
        cmocka_unit_test(request_refuses_bad_environment),
        cmocka_unit_test(request_refuses_too_much_of_anything),
        cmocka_unit_test(request_checks_id_stdin_and_policy),
        cmocka_unit_test(request_reports_several_violations_at_once),
        cmocka_unit_test(request_of_run_is_that_of_execute_field_for_field),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
