/* SPDX-License-Identifier: Apache-2.0 */

/* What comes back as collected files, what stays of read-only inputs, and what stays behind. */
#include "common/auto.h"
#include "sandboxd/selftest/run.h"
#include "sandboxd/selftest/tester.h"

#include <stdio.h>
#include <string.h>

enum {
    TRAP_LINK,
    TRAP_FOLDER,
    TRAP_MAGIC,
    TRAP_FIFO,
    TRAP_HARD_LINK,
    TRAP_SECOND_LINK,
    TRAP_SPARSE,
    TRAP_MISSING,
    TRAP_COUNT,
    REWRITTEN = TRAP_COUNT,
    READ_ONLY,
    TRACES_WORKSPACE,
    TRACES_TMP,
    TRACES_SHM,
    FILE_COUNT,
};

#define STATUS(name) CRISOL__SANDBOX__V1__COLLECT_STATUS__COLLECT_STATUS_##name

static const struct {
    const char *id;
    const char *name;
    const char *expected;
    const char *path; /* to collect */
    uint32_t control;
    uint32_t status;
} probes[FILE_COUNT] = {
    [TRAP_LINK] = {"C01", "collect-link", "NOT_REGULAR", "link", SBX_CONTROL_ROOTFS,
                   STATUS(NOT_REGULAR)},
    [TRAP_FOLDER] = {"C01", "collect-through-link", "NOT_REGULAR", "folder/passwd",
                     SBX_CONTROL_ROOTFS, STATUS(NOT_REGULAR)},
    [TRAP_MAGIC] = {"C01", "collect-magic-link", "NOT_REGULAR", "magic", SBX_CONTROL_ROOTFS,
                    STATUS(NOT_REGULAR)},
    [TRAP_FIFO] = {"C01", "collect-fifo", "NOT_REGULAR", "fifo", SBX_CONTROL_ROOTFS,
                   STATUS(NOT_REGULAR)},
    [TRAP_HARD_LINK] = {"C01", "collect-hard-link", "NOT_REGULAR", "honest", SBX_CONTROL_ROOTFS,
                        STATUS(NOT_REGULAR)},
    [TRAP_SECOND_LINK] = {"C01", "collect-second-name", "NOT_REGULAR", "second", SBX_CONTROL_ROOTFS,
                          STATUS(NOT_REGULAR)},
    [TRAP_SPARSE] = {"C01", "collect-sparse", "TOO_LARGE", "sparse", SBX_CONTROL_ROOTFS,
                     STATUS(TOO_LARGE)},
    [TRAP_MISSING] = {"C01", "collect-missing", "NOT_FOUND", "missing", SBX_CONTROL_ROOTFS,
                      STATUS(NOT_FOUND)},
    [REWRITTEN] = {"F13", "rewrite-after-exit", "collected, 1 writer killed", "result",
                   SBX_NO_CONTROL, 0},
    [READ_ONLY] = {"F11", "change-read-only-input", "pristine", "tests/test.py", SBX_NO_CONTROL, 0},
    [TRACES_WORKSPACE] = {"C20", "traces-in-workspace", "none", NULL, SBX_CONTROL_TMPFS, 0},
    [TRACES_TMP] = {"C20", "traces-in-tmp", "none", NULL, SBX_CONTROL_TMPFS, 0},
    [TRACES_SHM] = {"C20", "traces-in-shm", "none", NULL, SBX_CONTROL_TMPFS, 0},
};

static size_t count_files(void)
{
    return FILE_COUNT;
}

static void describe(size_t index, struct sbx_item *ret_item)
{
    *ret_item = (struct sbx_item){
        .id = probes[index].id, .name = probes[index].name, .control = probes[index].control};
    (void)snprintf(ret_item->expected, sizeof(ret_item->expected), "%s", probes[index].expected);
}

/* Runs; when that fails reports an error for `count` probes from `index` on, and returns -1. */
static int run_or_report(struct sbx_tester *tester, const struct sbx_spec *spec, size_t index,
                         size_t count, struct sbx_reply *ret_reply)
{
    char problem[96];

    if (sbx_run(tester, spec, ret_reply, problem, sizeof(problem)) == 0)
        return 0;
    for (size_t i = 0; i < count; i++)
        sbx_tester_report(tester, index + i, SBX_PROBE_ERROR, "%s", problem);
    return -1;
}

static const Crisol__Sandbox__V1__CollectedFile *find_file(const struct sbx_reply *reply,
                                                           const char *path)
{
    for (size_t i = 0; i < reply->result->n_files; i++) {
        if (strcmp(reply->result->files[i]->path, path) == 0)
            return reply->result->files[i];
    }
    return NULL;
}

static const char *status_name(uint32_t status)
{
    static const char *const names[] = {"UNSPECIFIED", "OK",        "NOT_FOUND",
                                        "NOT_REGULAR", "TOO_LARGE", "UNREADABLE"};

    return status < CR_ARRAY_SIZE(names) ? names[status] : "?";
}

static void walk_into_traps(struct sbx_tester *tester, size_t first)
{
    struct sbx_spec spec = {.behaviour = "make-traps"};
    struct sbx_reply reply;

    for (size_t i = 0; i < TRAP_COUNT; i++)
        spec.collect[i] = probes[i].path;
    if (run_or_report(tester, &spec, first, TRAP_COUNT, &reply) < 0)
        return;
    for (size_t i = 0; i < TRAP_COUNT; i++) {
        const Crisol__Sandbox__V1__CollectedFile *file = find_file(&reply, probes[i].path);
        const uint32_t status = file ? (uint32_t)file->status : 0;
        const bool is_held = file && status == probes[i].status && file->data.len == 0;

        sbx_tester_report(tester, first + i, is_held ? SBX_PROBE_PASS : SBX_PROBE_FAIL,
                          "%s, %zu bytes", status_name(status), file ? file->data.len : 0);
    }
    sbx_reply_done(&reply);
}

static void rewrite(struct sbx_tester *tester, size_t index)
{
    const struct sbx_spec spec = {.behaviour = "rewrite-result", .collect = {"result"}};
    const Crisol__Sandbox__V1__CollectedFile *file;
    struct sbx_reply reply;
    bool is_held;

    if (run_or_report(tester, &spec, index, 1, &reply) < 0)
        return;
    file = find_file(&reply, "result");
    is_held = file && file->status == STATUS(OK) && reply.observed.killed_leftovers == 1;
    sbx_tester_report(tester, index, is_held ? SBX_PROBE_PASS : SBX_PROBE_FAIL,
                      "%s, %u writers killed", file ? status_name((uint32_t)file->status) : "none",
                      reply.observed.killed_leftovers);
    sbx_reply_done(&reply);
}

static void change_read_only(struct sbx_tester *tester, size_t index)
{
    const struct sbx_spec spec = {
        .shell = "chmod -R 777 /workspace; echo forged > tests/test.py; rm -rf tests;"
                 "mv tests other; mv other tests; ln -s /dev/null test.py; mv test.py tests;"
                 "cp /etc/passwd tests/test.py; rm tests/test.py; mkdir -p tests;"
                 "echo forged > tests/test.py; exit 0",
        .read_only_path = "tests/test.py",
        .read_only_text = "pristine",
        .collect = {"tests/test.py"},
    };
    const Crisol__Sandbox__V1__CollectedFile *file;
    struct sbx_reply reply;
    char seen[32] = "none";

    if (run_or_report(tester, &spec, index, 1, &reply) < 0)
        return;
    file = find_file(&reply, "tests/test.py");
    if (file && file->status == STATUS(OK))
        (void)snprintf(seen, sizeof(seen), "%.*s", (int)file->data.len,
                       (const char *)file->data.data);
    sbx_tester_compare(tester, index, seen);
    sbx_reply_done(&reply);
}

/* More boxes than there are slots, so that one is used again. */
static void leave_traces(struct sbx_tester *tester, size_t first)
{
    static const char *const clean[] = {"workspace-is-clean ok\n", "tmp-is-clean ok\n",
                                        "shm-is-clean ok\n"};
    const struct sbx_spec leave = {.behaviour = "leave-traces"};
    char control[16];
    const struct sbx_spec look = {.behaviour = "places", .argument = control};
    unsigned int found[CR_ARRAY_SIZE(clean)] = {0};

    (void)snprintf(control, sizeof(control), "%d", SBX_CONTROL_TMPFS);
    for (uint32_t i = 0; i < tester->stack->slots + 1; i++) {
        struct sbx_reply reply;

        if (run_or_report(tester, &leave, first, CR_ARRAY_SIZE(clean), &reply) < 0)
            return;
        sbx_reply_done(&reply);
        if (run_or_report(tester, &look, first, CR_ARRAY_SIZE(clean), &reply) < 0)
            return;
        for (size_t j = 0; j < CR_ARRAY_SIZE(clean); j++)
            found[j] += strstr(reply.observed.out, clean[j]) == NULL;
        sbx_reply_done(&reply);
    }
    for (size_t j = 0; j < CR_ARRAY_SIZE(clean); j++)
        sbx_tester_report(tester, first + j, found[j] == 0 ? SBX_PROBE_PASS : SBX_PROBE_FAIL,
                          "%u boxes with traces", found[j]);
}

static void run_files(struct sbx_tester *tester, size_t first)
{
    if (tester->only != SBX_EVERY_CONTROL)
        return;
    walk_into_traps(tester, first);
    rewrite(tester, first + REWRITTEN);
    change_read_only(tester, first + READ_ONLY);
    leave_traces(tester, first + TRACES_WORKSPACE);
}

const struct sbx_group sbx_group_files = {count_files, describe, run_files};
