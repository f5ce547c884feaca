/* SPDX-License-Identifier: Apache-2.0 */

/* Programs that take more than they may have (R of the catalogue). */
#include "common/clock.h"
#include "tests/escape/box.h"
#include "tests/harness/test.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sys/stat.h>

#define MIB (UINT64_C(1) << 20)
/* What a busy machine may add to a limit of time. */
#define SLACK_MS (UINT64_C(2000) * test_slowness())

/* Runs and checks the verdict. */
static void run(const struct escape_spec *spec, enum sbx_verdict expected,
                struct native_run *ret_run)
{
    escape_run(spec, ret_run);
    escape_assert_verdict(ret_run, expected);
}

/* Splits "count reason\n" of the probe. */
static uint64_t reached(const struct native_run *run, char reason[32])
{
    char *end;
    const unsigned long long count = strtoull(cr_buf_str(&run->out[0]), &end, 10);

    assert_int_equal(*end, ' ');
    (void)snprintf(reason, 32, "%.*s", (int)strcspn(end + 1, "\n"), end + 1);
    return count;
}

static void assert_reached(const struct escape_spec *spec, uint64_t least, uint64_t most,
                           const char *expected)
{
    struct native_run result;
    char reason[32];

    run(spec, SBX_VERDICT_OK, &result);
    assert_in_range(reached(&result, reason), least, most);
    assert_string_equal(reason, expected);
    native_run_done(&result);
}

static void r01_a_fork_bomb_stops_at_the_process_limit(void **state)
{
    struct native_run result;
    char reason[32];

    (void)state;
    run(&(struct escape_spec){.behaviour = "fork-bomb"}, SBX_VERDICT_OK, &result);

    assert_in_range(reached(&result, reason), 55, 63); /* 64 with itself and pid 1 */
    assert_string_equal(reason, "EAGAIN");
    assert_true(result.result.process_limit_hits > 0);
    assert_true(result.result.killed_leftovers > 50);
    native_run_done(&result);
}

static void r02_a_thread_bomb_stops_at_the_process_limit(void **state)
{
    (void)state;
    assert_reached(&(struct escape_spec){.behaviour = "thread-bomb"}, 55, 63, "EAGAIN");
}

static void r03_orphans_are_reaped(void **state)
{
    struct native_run result;
    char count[16];

    (void)state;
    /* Even slow machines get several times the number of processes that a box may have. */
    (void)snprintf(count, sizeof(count), "%u", 2000U / test_slowness() + 200U);
    run(&(struct escape_spec){.behaviour = "orphan-storm",
                              .argument = count,
                              .limits[SBX_LIMIT_CPU_MILLICORES] = 2000},
        SBX_VERDICT_OK, &result);
    native_run_done(&result);
}

static void r05_memory_has_a_limit(void **state)
{
    struct native_run result;

    (void)state;
    run(&(struct escape_spec){.behaviour = "eat-memory", .argument = "268435456"},
        SBX_VERDICT_MEMORY_LIMIT, &result);

    assert_true(result.result.oom_kills >= 1);
    assert_true(result.result.memory_peak_bytes <= 129 * MIB);
    assert_int_equal(result.result.hit.limit, SBX_LIMIT_MEMORY);
    native_run_done(&result);
}

static void r06_memory_of_a_child_does_not_hide_behind_exit_0(void **state)
{
    struct native_run result;

    (void)state;
    run(&(struct escape_spec){.behaviour = "eat-memory-in-child", .argument = "268435456"},
        SBX_VERDICT_MEMORY_LIMIT, &result);
    native_run_done(&result);
}

static void r07_the_writable_folders_share_one_limit(void **state)
{
    (void)state;
    assert_reached(&(struct escape_spec){.behaviour = "fill-bytes",
                                         .limits[SBX_LIMIT_WORKSPACE_BYTES] = 16 * MIB},
                   12 * MIB, 16 * MIB, "ENOSPC");
}

static void r08_inodes_have_a_limit(void **state)
{
    (void)state;
    assert_reached(&(struct escape_spec){.behaviour = "fill-inodes"}, 4000, 4096, "ENOSPC");
}

static void r13_the_stack_has_a_limit(void **state)
{
    struct native_run result;

    (void)state;
    run(&(struct escape_spec){.behaviour = "recurse", .argument = "1000000"}, SBX_VERDICT_SIGNALED,
        &result);
    assert_int_equal(result.result.signal, SIGSEGV);
    native_run_done(&result);
}

static void r14_a_file_has_a_limit(void **state)
{
    struct native_run result;

    (void)state;
    run(&(struct escape_spec){.behaviour = "grow-file", .argument = "1099511627776"},
        SBX_VERDICT_FILE_SIZE_LIMIT, &result);
    native_run_done(&result);
}

static void r17_open_files_have_a_limit(void **state)
{
    (void)state;
    assert_reached(&(struct escape_spec){.behaviour = "open-files"}, 1024, 1024, "EMFILE");
}

static void r20_a_busy_loop_gets_its_share_and_no_more(void **state)
{
    struct native_run result;

    (void)state;
    run(&(struct escape_spec){.behaviour = "spin", .limits[SBX_LIMIT_WALL_TIME] = 1000},
        SBX_VERDICT_WALL_TIME_LIMIT, &result);

    assert_in_range(result.result.wall_us, 1000 * 1000, (1000 + SLACK_MS) * 1000);
    assert_true(result.result.cpu_total_us <= result.result.wall_us * 65 / 100);
    /* On a busy machine others may have held it back before its own limit could. */
    if (result.result.cpu_total_us > result.result.wall_us * 48 / 100)
        assert_true(result.result.cpu_throttled_us > 0);
    native_run_done(&result);
}

static void r20_a_busy_loop_meets_the_cpu_limit(void **state)
{
    struct native_run result;

    (void)state;
    run(&(struct escape_spec){.behaviour = "spin", .limits[SBX_LIMIT_CPU_TIME] = 200},
        SBX_VERDICT_CPU_TIME_LIMIT, &result);
    native_run_done(&result);
}

static void assert_ends_in_time(const char *behaviour)
{
    struct native_run result;

    run(&(struct escape_spec){.behaviour = behaviour, .limits[SBX_LIMIT_WALL_TIME] = 300},
        SBX_VERDICT_WALL_TIME_LIMIT, &result);
    assert_in_range((result.exited_ns - result.started_ns) / CR_NS_PER_MS, 290, 300 + SLACK_MS);
    native_run_done(&result);
}

static void r21_deaf_programs_end(void **state)
{
    (void)state;
    assert_ends_in_time("sleep-deaf");
}

static void r22_stopped_programs_end(void **state)
{
    (void)state;
    assert_ends_in_time("stop-self");
}

static void r28_a_run_ends_with_its_process_and_not_with_its_pipes(void **state)
{
    struct native_run result;

    (void)state;
    run(&(struct escape_spec){.behaviour = "close-and-exit", .argument = "3"},
        SBX_VERDICT_NONZERO_EXIT, &result);
    assert_int_equal(result.result.exit_code, 3);
    native_run_done(&result);
}

static void r29_a_daemon_does_not_keep_a_run_alive(void **state)
{
    struct native_run result;

    (void)state;
    run(&(struct escape_spec){.behaviour = "leave-daemon"}, SBX_VERDICT_OK, &result);

    assert_int_equal(result.result.killed_leftovers, 1);
    assert_true(result.result.wall_us < SLACK_MS * 1000);
    native_run_done(&result);
}

static void c23_forks_do_not_outrun_the_kill(void **state)
{
    struct native_run result;

    (void)state;
    run(&(struct escape_spec){.behaviour = "leave-runners"}, SBX_VERDICT_OK, &result);
    assert_true(result.result.wall_us < SLACK_MS * 1000);
    native_run_done(&result);
}

#define TEST(function) cmocka_unit_test_teardown(function, escape_check_next)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(r01_a_fork_bomb_stops_at_the_process_limit),
        TEST(r02_a_thread_bomb_stops_at_the_process_limit),
        TEST(r03_orphans_are_reaped),
        TEST(r05_memory_has_a_limit),
        TEST(r06_memory_of_a_child_does_not_hide_behind_exit_0),
        TEST(r07_the_writable_folders_share_one_limit),
        TEST(r08_inodes_have_a_limit),
        TEST(r13_the_stack_has_a_limit),
        TEST(r14_a_file_has_a_limit),
        TEST(r17_open_files_have_a_limit),
        TEST(r20_a_busy_loop_gets_its_share_and_no_more),
        TEST(r20_a_busy_loop_meets_the_cpu_limit),
        TEST(r21_deaf_programs_end),
        TEST(r22_stopped_programs_end),
        TEST(r28_a_run_ends_with_its_process_and_not_with_its_pipes),
        TEST(r29_a_daemon_does_not_keep_a_run_alive),
        TEST(c23_forks_do_not_outrun_the_kill),
    };

    if (geteuid() != 0)
        return 77; /* boxes take root */
    return cmocka_run_group_tests(tests, escape_start, escape_stop);
}
