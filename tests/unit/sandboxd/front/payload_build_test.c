/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/buf.h"
#include "common/unconst.h"
#include "rpc/status.h"
#include "sandboxd/front/payload_build.h"
#include "sandboxd/runtimes/table.h"
#include "sandboxd/wire/payload.h"
#include "tests/harness/test.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include <sys/mman.h>
#include <sys/stat.h>

typedef Crisol__Sandbox__V1__ExecuteRequest execute_request;

/* The payload of a request, read back. */
struct payload {
    uint8_t bytes[64 << 10];
    size_t size;
};

static void build(const execute_request *message, struct payload *payload)
{
    struct sbx_request_rules rules = {.maximum = sbx_maximum_limits,
                                      .runtimes = UINT32_MAX,
                                      .backend = CRISOL__SANDBOX__V1__BACKEND__BACKEND_NATIVE};
    struct rpc_status status = RPC_STATUS_INIT;
    struct sbx_request request;
    CR_AUTO_BUF struct cr_buf buf;

    if (sbx_request_check(message, &rules, &request, &status) < 0)
        fail_msg("%s", status.message);
    assert_int_equal(sbx_payload_build(message, &request, &buf, NULL), 0);
    assert_true(buf.size <= sizeof(payload->bytes));
    memcpy(payload->bytes, buf.data, buf.size);
    payload->size = buf.size;
}

/* The n-th record of a kind; false when there is none. */
static bool find(const struct payload *payload, uint32_t kind, size_t n,
                 struct sbx_payload_item *ret_item)
{
    struct sbx_payload_reader reader;

    assert_int_equal(sbx_payload_open(&reader, payload->bytes, payload->size), 0);
    for (;;) {
        int r = sbx_payload_next(&reader, ret_item);

        assert_true(r >= 0);
        if (r == 0)
            return false;
        if (ret_item->record.kind == kind && n-- == 0)
            return true;
    }
}

static void assert_item(const struct payload *payload, uint32_t kind, size_t n, const char *name,
                        const char *data)
{
    struct sbx_payload_item item;

    assert_true(find(payload, kind, n, &item));
    assert_int_equal(item.record.name_size, strlen(name));
    assert_memory_equal(item.name, name, strlen(name));
    assert_int_equal(item.record.data_size, strlen(data));
    assert_memory_equal(item.data, data, strlen(data));
}

static bool has_env(const struct payload *payload, const char *name, const char *value)
{
    struct sbx_payload_item item;

    for (size_t i = 0; find(payload, SBX_PAYLOAD_ENV, i, &item); i++) {
        if (item.record.name_size == strlen(name) && memcmp(item.name, name, strlen(name)) == 0 &&
            item.record.data_size == strlen(value) && memcmp(item.data, value, strlen(value)) == 0)
            return true;
    }
    return false;
}

static void payload_of_code_has_argv_and_entry_file(void **state)
{
    const struct sbx_runtime *runtime;
    execute_request message = CRISOL__SANDBOX__V1__EXECUTE_REQUEST__INIT;
    char *args[] = {cr_unconst("one"), cr_unconst("")};
    struct payload payload;
    struct sbx_payload_item item;
    size_t count;
    size_t at = 0;
    int fds = test_count_fds();

    (void)state;
    runtime = &sbx_runtimes(&count)[sbx_runtime_find("python")];
    message.runtime = cr_unconst("python");
    message.code = cr_unconst("print(2+2)");
    message.args = args;
    message.n_args = 2;
    build(&message, &payload);

    for (; runtime->argv[at]; at++)
        assert_item(&payload, SBX_PAYLOAD_ARG, at, "", runtime->argv[at]);
    assert_item(&payload, SBX_PAYLOAD_ARG, at, "", "one");
    assert_item(&payload, SBX_PAYLOAD_ARG, at + 1, "", "");
    assert_false(find(&payload, SBX_PAYLOAD_ARG, at + 2, &item));
    assert_item(&payload, SBX_PAYLOAD_FILE, 0, "main.py", "print(2+2)");
    assert_true(has_env(&payload, "HOME", "/workspace"));
    assert_false(find(&payload, SBX_PAYLOAD_COLLECT, 0, &item));
    assert_int_equal(test_count_fds(), fds);
}

static void payload_of_a_command_has_it_as_it_is(void **state)
{
    execute_request message = CRISOL__SANDBOX__V1__EXECUTE_REQUEST__INIT;
    char *command[] = {cr_unconst("/usr/bin/env"), cr_unconst("-i")};
    struct payload payload;
    struct sbx_payload_item item;

    (void)state;
    message.runtime = cr_unconst("pytest");
    message.command = command;
    message.n_command = 2;
    build(&message, &payload);

    assert_item(&payload, SBX_PAYLOAD_ARG, 0, "", "/usr/bin/env");
    assert_item(&payload, SBX_PAYLOAD_ARG, 1, "", "-i");
    assert_false(find(&payload, SBX_PAYLOAD_ARG, 2, &item));
    assert_false(find(&payload, SBX_PAYLOAD_COLLECT, 0, &item)); /* no report of a command */
}

static void payload_has_files_with_mode_and_flags(void **state)
{
    Crisol__Sandbox__V1__InputFile file[2] = {CRISOL__SANDBOX__V1__INPUT_FILE__INIT,
                                              CRISOL__SANDBOX__V1__INPUT_FILE__INIT};
    Crisol__Sandbox__V1__InputFile *files[] = {&file[0], &file[1]};
    execute_request message = CRISOL__SANDBOX__V1__EXECUTE_REQUEST__INIT;
    struct payload payload;
    struct sbx_payload_item item;

    (void)state;
    message.runtime = cr_unconst("pytest");
    file[0].path = cr_unconst("test_a.py");
    file[0].text = cr_unconst("x");
    file[0].read_only = true;
    file[1].path = cr_unconst("d/run.sh");
    file[1].data = (ProtobufCBinaryData){.len = 3, .data = cr_unconst("a\0b")};
    file[1].mode = 0755;
    message.files = files;
    message.n_files = 2;
    build(&message, &payload);

    assert_item(&payload, SBX_PAYLOAD_FILE, 0, "test_a.py", "x");
    assert_true(find(&payload, SBX_PAYLOAD_FILE, 0, &item));
    assert_int_equal(item.record.mode, 0644);
    assert_int_equal(item.record.flags, SBX_PAYLOAD_FILE_READ_ONLY);
    assert_true(find(&payload, SBX_PAYLOAD_FILE, 1, &item));
    assert_int_equal(item.record.mode, 0755);
    assert_int_equal(item.record.flags, 0);
    assert_int_equal(item.record.data_size, 3);
    assert_memory_equal(item.data, "a\0b", 3);
}

static void payload_collects_the_report_last(void **state)
{
    Crisol__Sandbox__V1__CollectSpec spec = CRISOL__SANDBOX__V1__COLLECT_SPEC__INIT;
    Crisol__Sandbox__V1__CollectSpec *specs[] = {&spec};
    execute_request message = CRISOL__SANDBOX__V1__EXECUTE_REQUEST__INIT;
    struct payload payload;
    struct sbx_payload_item item;

    (void)state;
    message.runtime = cr_unconst("pytest");
    message.code = cr_unconst("x");
    spec.path = cr_unconst("out.txt");
    spec.max_bytes = 10;
    spec.required = true;
    message.collect = specs;
    message.n_collect = 1;
    build(&message, &payload);

    assert_true(find(&payload, SBX_PAYLOAD_COLLECT, 0, &item));
    assert_int_equal(item.record.mode, 10);
    assert_int_equal(item.record.flags, SBX_PAYLOAD_COLLECT_REQUIRED);
    assert_true(find(&payload, SBX_PAYLOAD_COLLECT, 1, &item));
    assert_memory_equal(item.name, SBX_PYTEST_REPORT, strlen(SBX_PYTEST_REPORT));
    assert_int_equal(item.record.mode, SBX_REPORT_BYTES_MAX);
    assert_int_equal(item.record.flags, 0);
    assert_false(find(&payload, SBX_PAYLOAD_COLLECT, 2, &item));
}

static void payload_environment_of_the_request_replaces_the_fixed_one(void **state)
{
    Crisol__Sandbox__V1__ExecuteRequest__EnvEntry entry =
        CRISOL__SANDBOX__V1__EXECUTE_REQUEST__ENV_ENTRY__INIT;
    Crisol__Sandbox__V1__ExecuteRequest__EnvEntry *env[] = {&entry};
    execute_request message = CRISOL__SANDBOX__V1__EXECUTE_REQUEST__INIT;
    struct payload payload;

    (void)state;
    message.runtime = cr_unconst("python");
    message.code = cr_unconst("x");
    entry.key = cr_unconst("TZ");
    entry.value = cr_unconst("Europe/Madrid");
    message.env = env;
    message.n_env = 1;
    build(&message, &payload);

    assert_true(has_env(&payload, "TZ", "Europe/Madrid"));
    assert_false(has_env(&payload, "TZ", "UTC"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(payload_of_code_has_argv_and_entry_file),
        cmocka_unit_test(payload_of_a_command_has_it_as_it_is),
        cmocka_unit_test(payload_has_files_with_mode_and_flags),
        cmocka_unit_test(payload_collects_the_report_last),
        cmocka_unit_test(payload_environment_of_the_request_replaces_the_fixed_one),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
