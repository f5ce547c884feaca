/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "sandboxd/backend/verdict.h"
#include "tests/harness/test.h"

#include <errno.h>
#include <signal.h>
#include <string.h>

#define MIB (UINT64_C(1) << 20)

/* Wait statuses as from wait4(2). */
#define EXITED(code) ((code) << 8)
#define DIED(signal) (signal)

static const struct sbx_limits limits = {{
    [SBX_LIMIT_WALL_TIME] = 10000,
    [SBX_LIMIT_CPU_TIME] = 5000,
    [SBX_LIMIT_MEMORY] = 128 * MIB,
    [SBX_LIMIT_PROCESSES] = 64,
    [SBX_LIMIT_CPU_MILLICORES] = 500,
    [SBX_LIMIT_OPEN_FILES] = 1024,
    [SBX_LIMIT_FILE_SIZE] = 64 * MIB,
    [SBX_LIMIT_WORKSPACE_BYTES] = 64 * MIB,
    [SBX_LIMIT_WORKSPACE_INODES] = 4096,
    [SBX_LIMIT_STACK] = 8 * MIB,
    [SBX_LIMIT_OUTPUT] = 1 * MIB,
}};

struct row {
    const char *name;
    struct sbx_facts facts;
    uint32_t verdict;
    int32_t exit_code;
    int32_t signal;
    uint32_t hit;   /* verdicts with a limit: which */
    uint32_t other; /* how many other hits */
    uint32_t stage;
};

#define NO_HIT SBX_LIMIT_COUNT
#define LEADER(status) .has_leader = true, .wait_status = (status)
#define EVENT(which) .event_count = 1, .events = {{.verdict = (which), .observed = 9}}

static const struct row rows[] = {
    /* The own end of the program. */
    {"ok", {LEADER(0)}, SBX_VERDICT_OK, 0, 0, NO_HIT, 0, 0},
    {"exit 1", {LEADER(EXITED(1))}, SBX_VERDICT_NONZERO_EXIT, 1, 0, NO_HIT, 0, 0},
    {"exit 124", {LEADER(EXITED(124))}, SBX_VERDICT_NONZERO_EXIT, 124, 0, NO_HIT, 0, 0},
    {"exit 137", {LEADER(EXITED(137))}, SBX_VERDICT_NONZERO_EXIT, 137, 0, NO_HIT, 0, 0},
    {"SIGKILL", {LEADER(DIED(SIGKILL))}, SBX_VERDICT_SIGNALED, 0, SIGKILL, NO_HIT, 0, 0},
    {"SIGXCPU", {LEADER(DIED(SIGXCPU))}, SBX_VERDICT_SIGNALED, 0, SIGXCPU, NO_HIT, 0, 0},
    {"core flag", {LEADER(DIED(SIGSEGV | 0x80))}, SBX_VERDICT_SIGNALED, 0, SIGSEGV, NO_HIT, 0, 0},
    {"SIGSYS", {LEADER(DIED(SIGSYS))}, SBX_VERDICT_SECURITY_VIOLATION, 0, SIGSYS, NO_HIT, 0, 0},
    {"SIGSYS that no filter sent",
     {LEADER(DIED(SIGSYS)), .is_watched = true},
     SBX_VERDICT_SIGNALED,
     0,
     SIGSYS,
     NO_HIT,
     0,
     0},
    {"a call that was held back",
     {.is_killed = true, .has_forbidden_call = true, EVENT(SBX_VERDICT_SECURITY_VIOLATION)},
     SBX_VERDICT_SECURITY_VIOLATION,
     0,
     SIGSYS,
     NO_HIT,
     0,
     0},
    {"a call of a child that was held back when the program had ended",
     {LEADER(0), .has_forbidden_call = true, EVENT(SBX_VERDICT_SECURITY_VIOLATION)},
     SBX_VERDICT_SECURITY_VIOLATION,
     0,
     0,
     NO_HIT,
     0,
     0},
    {"a call behind a limit",
     {.is_killed = true,
      .has_forbidden_call = true,
      .event_count = 2,
      .events = {{.verdict = SBX_VERDICT_WALL_TIME_LIMIT, .observed = 9},
                 {.verdict = SBX_VERDICT_SECURITY_VIOLATION}}},
     SBX_VERDICT_WALL_TIME_LIMIT,
     0,
     SIGKILL,
     SBX_LIMIT_WALL_TIME,
     0,
     0},

    /* The first event decides; later ones are listed. */
    {"wall",
     {.is_killed = true, EVENT(SBX_VERDICT_WALL_TIME_LIMIT)},
     SBX_VERDICT_WALL_TIME_LIMIT,
     0,
     SIGKILL,
     SBX_LIMIT_WALL_TIME,
     0,
     0},
    {"cpu",
     {.is_killed = true, EVENT(SBX_VERDICT_CPU_TIME_LIMIT)},
     SBX_VERDICT_CPU_TIME_LIMIT,
     0,
     SIGKILL,
     SBX_LIMIT_CPU_TIME,
     0,
     0},
    {"output",
     {.is_killed = true, EVENT(SBX_VERDICT_OUTPUT_LIMIT)},
     SBX_VERDICT_OUTPUT_LIMIT,
     0,
     SIGKILL,
     SBX_LIMIT_OUTPUT,
     0,
     0},
    {"cancelled",
     {.is_killed = true, EVENT(SBX_VERDICT_CANCELLED)},
     SBX_VERDICT_CANCELLED,
     0,
     SIGKILL,
     NO_HIT,
     0,
     0},
    {"wall, then an OOM kill",
     {.is_killed = true, EVENT(SBX_VERDICT_WALL_TIME_LIMIT), .usage = {.oom_kills = 1}},
     SBX_VERDICT_WALL_TIME_LIMIT,
     0,
     SIGKILL,
     SBX_LIMIT_WALL_TIME,
     1,
     0},
    {"cancelled, then an OOM kill",
     {.is_killed = true, EVENT(SBX_VERDICT_CANCELLED), .usage = {.oom_kills = 1}},
     SBX_VERDICT_CANCELLED,
     0,
     SIGKILL,
     NO_HIT,
     1,
     0},
    {"memory and wall in one look",
     {.is_killed = true,
      .event_count = 2,
      .events = {{SBX_VERDICT_MEMORY_LIMIT, 0}, {SBX_VERDICT_WALL_TIME_LIMIT, 10001}},
      .usage = {.oom_kills = 1}},
     SBX_VERDICT_MEMORY_LIMIT,
     0,
     SIGKILL,
     SBX_LIMIT_MEMORY,
     1,
     0},
    {"wall, and out of disk and processes",
     {LEADER(EXITED(1)), EVENT(SBX_VERDICT_WALL_TIME_LIMIT), .is_workspace_full = true,
      .usage = {.process_limit_hits = 3}},
     SBX_VERDICT_WALL_TIME_LIMIT,
     1,
     0,
     SBX_LIMIT_WALL_TIME,
     2,
     0},

    /* What the counters tell at the end. */
    {"a child was killed for memory, the leader exits 0",
     {LEADER(0), .usage = {.oom_kills = 1}},
     SBX_VERDICT_MEMORY_LIMIT,
     0,
     0,
     SBX_LIMIT_MEMORY,
     0,
     0},
    {"the leader was killed for memory",
     {LEADER(DIED(SIGKILL)), .usage = {.oom_kills = 1}},
     SBX_VERDICT_MEMORY_LIMIT,
     0,
     SIGKILL,
     SBX_LIMIT_MEMORY,
     0,
     0},
    {"sandbox-init was killed for memory",
     {.usage = {.oom_kills = 1}},
     SBX_VERDICT_MEMORY_LIMIT,
     0,
     SIGKILL,
     SBX_LIMIT_MEMORY,
     0,
     0},
    {"too much CPU at the final read, exit 0",
     {LEADER(0), .usage = {.cpu_total_us = 5000001}},
     SBX_VERDICT_CPU_TIME_LIMIT,
     0,
     0,
     SBX_LIMIT_CPU_TIME,
     0,
     0},
    {"CPU exactly at the limit",
     {LEADER(0), .usage = {.cpu_total_us = 5000000}},
     SBX_VERDICT_OK,
     0,
     0,
     NO_HIT,
     0,
     0},
    {"output found while draining",
     {LEADER(0), .is_output_over = true, .output_observed = MIB + 1},
     SBX_VERDICT_OUTPUT_LIMIT,
     0,
     0,
     SBX_LIMIT_OUTPUT,
     0,
     0},
    {"a file at its limit, and the program failed",
     {LEADER(EXITED(1)), .is_file_at_limit = true},
     SBX_VERDICT_FILE_SIZE_LIMIT,
     1,
     0,
     SBX_LIMIT_FILE_SIZE,
     0,
     0},
    {"a file at its limit that the program bore",
     {LEADER(0), .is_file_at_limit = true},
     SBX_VERDICT_OK,
     0,
     0,
     NO_HIT,
     0,
     0},
    {"SIGXFSZ",
     {LEADER(DIED(SIGXFSZ))},
     SBX_VERDICT_FILE_SIZE_LIMIT,
     0,
     SIGXFSZ,
     SBX_LIMIT_FILE_SIZE,
     0,
     0},
    {"refused forks and a failure",
     {LEADER(EXITED(1)), .usage = {.process_limit_hits = 1}},
     SBX_VERDICT_PROCESS_LIMIT,
     1,
     0,
     SBX_LIMIT_PROCESSES,
     0,
     0},
    {"refused forks, tolerated",
     {LEADER(0), .usage = {.process_limit_hits = 1}},
     SBX_VERDICT_OK,
     0,
     0,
     NO_HIT,
     0,
     0},
    {"a full workspace and a failure",
     {LEADER(EXITED(1)), .is_workspace_full = true, .workspace_bytes = 64 * MIB},
     SBX_VERDICT_DISK_LIMIT,
     1,
     0,
     SBX_LIMIT_WORKSPACE_BYTES,
     0,
     0},
    {"all inodes used and a failure",
     {LEADER(EXITED(1)), .is_workspace_full = true, .workspace_inodes = 4096},
     SBX_VERDICT_DISK_LIMIT,
     1,
     0,
     SBX_LIMIT_WORKSPACE_INODES,
     0,
     0},
    {"all inodes of a share used and a failure",
     {LEADER(EXITED(1)), .is_workspace_full = true, .is_out_of_inodes = true,
      .workspace_inodes = 50},
     SBX_VERDICT_DISK_LIMIT,
     1,
     0,
     SBX_LIMIT_WORKSPACE_INODES,
     0,
     0},
    {"a full workspace, tolerated",
     {LEADER(0), .is_workspace_full = true},
     SBX_VERDICT_OK,
     0,
     0,
     NO_HIT,
     0,
     0},
    {"memory before disk",
     {LEADER(EXITED(1)), .is_workspace_full = true, .usage = {.oom_kills = 1}},
     SBX_VERDICT_MEMORY_LIMIT,
     1,
     0,
     SBX_LIMIT_MEMORY,
     1,
     0},
    {"SIGSYS before memory",
     {LEADER(DIED(SIGSYS)), .usage = {.oom_kills = 1}},
     SBX_VERDICT_SECURITY_VIOLATION,
     0,
     SIGSYS,
     NO_HIT,
     1,
     0},

    /* Files that were asked for. */
    {"a required file is missing",
     {LEADER(0), .is_collect_failed = true},
     SBX_VERDICT_COLLECT_FAILED,
     0,
     0,
     NO_HIT,
     0,
     0},
    {"it is missing because the program failed",
     {LEADER(EXITED(2)), .is_collect_failed = true},
     SBX_VERDICT_NONZERO_EXIT,
     2,
     0,
     NO_HIT,
     0,
     0},

    /* Starts that failed. */
    {"exec failed",
     {.is_killed = true, .stage = SBX_STAGE_EXEC, .error = ENOENT},
     SBX_VERDICT_EXEC_FAILED,
     0,
     0,
     NO_HIT,
     0,
     SBX_STAGE_EXEC},
    {"mount failed",
     {.is_killed = true, .stage = SBX_STAGE_MOUNT, .error = EPERM},
     SBX_VERDICT_SANDBOX_ERROR,
     0,
     0,
     NO_HIT,
     0,
     SBX_STAGE_MOUNT},
    {"counters unreadable",
     {LEADER(0), .stage = SBX_STAGE_MEASURE, .error = EIO},
     SBX_VERDICT_SANDBOX_ERROR,
     0,
     0,
     NO_HIT,
     0,
     SBX_STAGE_MEASURE},
    {"sandbox-init vanished",
     {.is_killed = false},
     SBX_VERDICT_SANDBOX_ERROR,
     0,
     0,
     NO_HIT,
     0,
     SBX_STAGE_MEASURE},
    {"input files larger than the workspace",
     {.is_killed = true, .stage = SBX_STAGE_PAYLOAD, .error = ENOSPC},
     SBX_VERDICT_DISK_LIMIT,
     0,
     0,
     SBX_LIMIT_WORKSPACE_BYTES,
     0,
     0},
    {"an input file larger than a file may be",
     {.is_killed = true, .stage = SBX_STAGE_PAYLOAD, .error = EFBIG},
     SBX_VERDICT_FILE_SIZE_LIMIT,
     0,
     0,
     SBX_LIMIT_FILE_SIZE,
     0,
     0},
    {"input files larger than the memory",
     {.stage = SBX_STAGE_PAYLOAD, .error = EIO, .usage = {.oom_kills = 1}},
     SBX_VERDICT_MEMORY_LIMIT,
     0,
     0,
     SBX_LIMIT_MEMORY,
     0,
     0},
    {"a malformed payload",
     {.is_killed = true, .stage = SBX_STAGE_PAYLOAD, .error = EPROTO},
     SBX_VERDICT_SANDBOX_ERROR,
     0,
     0,
     NO_HIT,
     0,
     SBX_STAGE_PAYLOAD},
};

static void check_row(const struct row *row)
{
    struct sbx_facts facts = row->facts;
    union sbx_msg msg;

    facts.limits = &limits;
    sbx_msg_init(&msg, SBX_MSG_RESULT, 1);
    sbx_verdict_decide(&facts, &msg.result);
    if (msg.result.verdict != row->verdict)
        print_error("%s: %s\n", row->name, sbx_verdict_name(msg.result.verdict));
    assert_int_equal(msg.result.verdict, row->verdict);
    assert_int_equal(msg.result.exit_code, row->exit_code);
    assert_int_equal(msg.result.signal, row->signal);
    assert_int_equal(msg.result.has_hit, row->hit != NO_HIT);
    assert_int_equal(msg.result.other_hit_count, row->other);
    assert_int_equal(msg.result.stage, row->stage);
    if (row->hit != NO_HIT) {
        assert_int_equal(msg.result.hit.limit, row->hit);
        assert_int_equal(msg.result.hit.value, limits.value[row->hit]);
    }
    /* What we say must be what the front's decoder takes. */
    assert_int_equal(sbx_msg_parse(&msg, msg.header.size, &msg, NULL), 0);
}

static void each_row_of_the_taxonomy_holds(void **state)
{
    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(rows); i++)
        check_row(&rows[i]);
}

static void the_killer_is_named(void **state)
{
    static const struct {
        struct sbx_facts facts;
        uint32_t killed_by;
    } cases[] = {
        {{.is_killed = true, EVENT(SBX_VERDICT_WALL_TIME_LIMIT)}, SBX_KILLED_BY_SANDBOXD},
        {{LEADER(0), .usage = {.oom_kills = 1}}, SBX_KILLED_BY_OOM_KILLER},
        {{LEADER(0), .usage = {.cpu_total_us = 6000000}}, SBX_KILLED_BY_NOBODY},
        {{LEADER(0), .is_output_over = true}, SBX_KILLED_BY_NOBODY},
    };

    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(cases); i++) {
        struct sbx_facts facts = cases[i].facts;
        union sbx_msg msg;

        facts.limits = &limits;
        sbx_msg_init(&msg, SBX_MSG_RESULT, 1);
        sbx_verdict_decide(&facts, &msg.result);
        assert_int_equal(msg.result.hit.killed_by, cases[i].killed_by);
    }
}

static void observed_is_in_the_unit_of_the_limit(void **state)
{
    struct sbx_facts facts = {
        .limits = &limits,
        LEADER(0),
        .usage = {.oom_kills = 1, .memory_peak_bytes = 127 * MIB, .cpu_total_us = 6000000}};
    union sbx_msg msg;

    (void)state;
    sbx_msg_init(&msg, SBX_MSG_RESULT, 1);
    sbx_verdict_decide(&facts, &msg.result);

    assert_int_equal(msg.result.hit.observed, 127 * MIB);
    assert_int_equal(msg.result.other_hits[0].limit, SBX_LIMIT_CPU_TIME);
    assert_int_equal(msg.result.other_hits[0].observed, 6000);
}

static void an_event_counts_once_and_events_are_bounded(void **state)
{
    struct sbx_facts facts = {0};

    (void)state;
    sbx_facts_add(&facts, SBX_VERDICT_WALL_TIME_LIMIT, 1);
    sbx_facts_add(&facts, SBX_VERDICT_WALL_TIME_LIMIT, 2);
    assert_int_equal(facts.event_count, 1);
    assert_int_equal(facts.events[0].observed, 1);
    for (uint32_t i = 100; i < 120; i++)
        sbx_facts_add(&facts, (enum sbx_verdict)i, 0);
    assert_int_equal(facts.event_count, SBX_EVENTS_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_row_of_the_taxonomy_holds),
        cmocka_unit_test(the_killer_is_named),
        cmocka_unit_test(observed_is_in_the_unit_of_the_limit),
        cmocka_unit_test(an_event_counts_once_and_events_are_bounded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
