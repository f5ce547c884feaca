/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/escape/box.h"

#include "common/auto.h"
#include "common/clock.h"
#include "sandboxd/wire/payload.h"
#include "tests/harness/test.h"
#include "tests/integration/sandboxd/native_host.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include <sys/stat.h>

#define BOX_PATH "/workspace/sbprobe"
#define NEXT_RUN_MS 30000
#define ALONE_MS 30000

struct native_client escape_client;

/* The test lies in "tests" of the build folder, the program in "bin". */
const char *escape_probe_path(void)
{
    static const char program[] = "/bin/sbprobe";
    static char path[PATH_MAX];
    const ssize_t size = readlink("/proc/self/exe", path, sizeof(path) - sizeof(program));

    assert_true(size > 0);
    path[size] = 0;
    *strrchr(path, '/') = 0;
    (void)memcpy(strrchr(path, '/'), program, sizeof(program));
    return path;
}

static void add_probe(struct cr_buf *payload)
{
    static uint8_t data[2U << 20];
    CR_AUTO_CLOSE int fd = open(escape_probe_path(), O_RDONLY | O_CLOEXEC);
    const ssize_t size = read(fd, data, sizeof(data));

    assert_in_range(size, 1, sizeof(data) - 1);
    assert_int_equal(sbx_payload_add(payload, SBX_PAYLOAD_FILE, 0, 0755, "sbprobe",
                                     strlen("sbprobe"), data, (size_t)size),
                     0);
}

static void add_text(struct cr_buf *payload, enum sbx_payload_kind kind, const char *name,
                     const char *data, uint32_t mode)
{
    assert_int_equal(
        sbx_payload_add(payload, kind, 0, mode, name, strlen(name), data, strlen(data)), 0);
}

void escape_send(const struct escape_spec *spec, struct native_run *ret_run)
{
    CR_AUTO_BUF struct cr_buf payload = {0};
    struct native_spec native = {.payload = &payload, .has_collect = spec->collect != NULL};

    cr_buf_init(&payload, SBX_PAYLOAD_MAX);
    assert_int_equal(sbx_payload_begin(&payload), 0);
    add_text(&payload, SBX_PAYLOAD_ARG, "", BOX_PATH, 0);
    add_text(&payload, SBX_PAYLOAD_ARG, "", spec->behaviour, 0);
    if (spec->argument)
        add_text(&payload, SBX_PAYLOAD_ARG, "", spec->argument, 0);
    add_text(&payload, SBX_PAYLOAD_ENV, "HOME", "/workspace", 0);
    add_probe(&payload);
    for (size_t i = 0; spec->collect && spec->collect[i]; i++)
        add_text(&payload, SBX_PAYLOAD_COLLECT, spec->collect[i], "", 1U << 20);
    sbx_payload_end(&payload);
    memcpy(native.limits, spec->limits, sizeof(native.limits));
    native_client_send(&escape_client, ret_run, &native);
}

void escape_run(const struct escape_spec *spec, struct native_run *ret_run)
{
    escape_send(spec, ret_run);
    native_client_wait(&escape_client, ret_run, 1);
}

void escape_assert_verdict(const struct native_run *run, enum sbx_verdict expected)
{
    const struct sbx_msg_result *result = &run->result;

    if (result->verdict == (uint32_t)expected)
        return;
    fail_msg("verdict %s, expected %s: exit %d, signal %d, stage %s, errno %d, stderr '%s'",
             sbx_verdict_name(result->verdict), sbx_verdict_name((uint32_t)expected),
             result->exit_code, result->signal, sbx_stage_name(result->stage), result->stage_errno,
             cr_buf_str(&run->out[1]));
}

int escape_start(void **state)
{
    (void)state;
    native_client_start(&escape_client, NULL);
    return 0;
}

int escape_stop(void **state)
{
    (void)state;
    native_client_stop(&escape_client);
    return 0;
}

/* The tear-down of a dead box may end a moment behind its result. */
static void wait_until_alone(void)
{
    const int64_t deadline_ns = cr_clock_mono_ns() + ALONE_MS * CR_NS_PER_MS * test_slowness();

    while (native_client_count_programs(&escape_client) > 0)
        assert_true(cr_clock_mono_ns() < deadline_ns);
}

int escape_check_next(void **state)
{
    const int64_t start_ns = cr_clock_mono_ns();
    struct native_run run;

    (void)state;
    wait_until_alone();
    escape_run(&(struct escape_spec){.behaviour = "exit", .argument = "0"}, &run);
    escape_assert_verdict(&run, SBX_VERDICT_OK);
    native_run_done(&run);
    assert_in_range(cr_clock_mono_ns() - start_ns, 0, NEXT_RUN_MS * CR_NS_PER_MS * test_slowness());
    return 0;
}
