/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/clock.h"
#include "tests/harness/test.h"
#include "tests/integration/sandboxd/native_client.h"
#include "tests/integration/sandboxd/native_host.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MIB (UINT64_C(1) << 20)
#define LATE_MS                                                                                    \
    UINT64_C(3000) /* so late a limit of time may be noticed; no program would end by then */

static struct native_client client;

static int start(void **state)
{
    (void)state;
    native_client_start(&client, NULL);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    native_client_stop(&client);
    return 0;
}

/* A program and what is to be said about it. */
struct row {
    const char *name;
    struct native_spec spec;
    uint32_t verdict;
    int32_t exit_code;
    int32_t signal;
    const char *out; /* what it prints; NULL: not looked at */
};

static void expect(const struct row *row)
{
    struct native_run run;

    native_client_run(&client, &row->spec, &run);
    if (run.result.verdict != row->verdict || run.result.exit_code != row->exit_code ||
        run.result.signal != row->signal)
        print_error("%s: verdict %s exit %d signal %d stage %s errno %d\n%s%s\n", row->name,
                    sbx_verdict_name(run.result.verdict), run.result.exit_code, run.result.signal,
                    sbx_stage_name(run.result.stage), run.result.stage_errno,
                    cr_buf_str(&run.out[0]), cr_buf_str(&run.out[1]));
    assert_int_equal(run.result.verdict, row->verdict);
    assert_int_equal(run.result.exit_code, row->exit_code);
    assert_int_equal(run.result.signal, row->signal);
    if (row->out)
        assert_string_equal(cr_buf_str(&run.out[0]), row->out);
    native_run_done(&run);
}

static void expect_all(const struct row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++)
        expect(&rows[i]);
}

static void the_own_end_of_a_program_is_told_as_it_was(void **state)
{
    static const char *const argv[] = {"/bin/true", NULL};
    static const struct row rows[] = {
        {"true", {.argv = argv}, SBX_VERDICT_OK, 0, 0, ""},
        {"echo", {.shell = "echo hi; echo no >&2"}, SBX_VERDICT_OK, 0, 0, "hi\n"},
        {"exit 7", {.shell = "exit 7"}, SBX_VERDICT_NONZERO_EXIT, 7, 0, ""},
        {"exit 137", {.shell = "exit 137"}, SBX_VERDICT_NONZERO_EXIT, 137, 0, ""},
        {"SIGTERM", {.shell = "kill -TERM $$"}, SBX_VERDICT_SIGNALED, 0, SIGTERM, ""},
        {"SIGKILL", {.shell = "kill -KILL $$"}, SBX_VERDICT_SIGNALED, 0, SIGKILL, ""},
        {"SIGXCPU", {.shell = "kill -XCPU $$"}, SBX_VERDICT_SIGNALED, 0, SIGXCPU, ""},
        {"abort", {.python = "import os; os.abort()"}, SBX_VERDICT_SIGNALED, 0, SIGABRT, ""},
        {"input file",
         {.shell = "cat in.txt", .file_name = "in.txt", .file_text = "content"},
         SBX_VERDICT_OK,
         0,
         0,
         "content"},
    };

    (void)state;
    expect_all(rows, CR_ARRAY_SIZE(rows));
}

static void usage_is_measured(void **state)
{
    struct native_run run;

    (void)state;
    native_client_run(&client,
                      &(struct native_spec){.python = "x = bytearray(30 << 20)\n"
                                                      "open('a', 'wb').write(x[:1 << 20])"},
                      &run);

    assert_int_equal(run.result.verdict, SBX_VERDICT_OK);
    assert_int_equal(run.result.has_hit, 0);
    assert_true(run.has_started && run.has_exited);
    assert_in_range(run.result.wall_us, 1000, 9000000 * test_slowness());
    assert_in_range(run.result.cpu_total_us, 1000, 9000000 * test_slowness());
    assert_true(run.result.cpu_user_us + run.result.cpu_system_us <= run.result.cpu_total_us);
    assert_in_range(run.result.memory_peak_bytes, 30 * MIB, 100 * MIB);
    assert_in_range(run.result.workspace_bytes, 1 * MIB, 1 * MIB + 65536);
    assert_int_equal(run.result.workspace_inodes, 1);
    assert_in_range(run.result.prepare_us, 1, 10000000);
    native_run_done(&run);
}

static void a_missing_program_is_exec_failed(void **state)
{
    static const char *const argv[] = {"/usr/bin/no-such-program", NULL};
    struct native_run run;

    (void)state;
    native_client_run(&client, &(struct native_spec){.argv = argv}, &run);

    assert_int_equal(run.result.verdict, SBX_VERDICT_EXEC_FAILED);
    assert_int_equal(run.result.stage, SBX_STAGE_EXEC);
    assert_int_equal(run.result.stage_errno, ENOENT);
    native_run_done(&run);
}

/* Runs into `limit`; checks verdict, hit, and that it took about `value_ms` of wall time. */
static void expect_time_limit(const struct native_spec *spec, uint32_t verdict,
                              enum sbx_limit limit)
{
    struct native_run run;
    uint64_t value = spec->limits[limit];

    native_client_run(&client, spec, &run);
    assert_int_equal(run.result.verdict, verdict);
    assert_int_equal(run.result.signal, SIGKILL);
    assert_int_equal(run.result.has_hit, 1);
    assert_int_equal(run.result.hit.limit, limit);
    assert_int_equal(run.result.hit.killed_by, SBX_KILLED_BY_SANDBOXD);
    assert_int_equal(run.result.hit.value, value);
    assert_in_range(run.result.hit.observed, value, value + LATE_MS * test_slowness());
    native_run_done(&run);
}

static void endless_programs_meet_the_wall_limit(void **state)
{
    static const char *const programs[] = {
        "while :; do :; done",
        "exec sleep 60",
        "trap '' TERM INT HUP; sleep 60 & wait",
        "kill -STOP 0",
        "kill -STOP $$",
        "for i in 1 2 3 4 5 6 7 8; do (while :; do :; done) & done; wait",
    };

    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(programs); i++)
        expect_time_limit(
            &(struct native_spec){.shell = programs[i], .limits = {[SBX_LIMIT_WALL_TIME] = 200}},
            SBX_VERDICT_WALL_TIME_LIMIT, SBX_LIMIT_WALL_TIME);
}

static void a_busy_program_meets_the_cpu_limit(void **state)
{
    (void)state;
    expect_time_limit(
        &(struct native_spec){
            .shell = "while :; do :; done",
            .limits = {[SBX_LIMIT_CPU_TIME] = 150, [SBX_LIMIT_CPU_MILLICORES] = 1000}},
        SBX_VERDICT_CPU_TIME_LIMIT, SBX_LIMIT_CPU_TIME);
}

static void cpu_bandwidth_is_held(void **state)
{
    const unsigned int factor = test_slowness();
    struct native_run run;

    (void)state;
    native_client_run(
        &client,
        &(struct native_spec){
            .shell = "while :; do :; done",
            .limits = {[SBX_LIMIT_WALL_TIME] = 500 * factor, [SBX_LIMIT_CPU_MILLICORES] = 50}},
        &run);

    assert_int_equal(run.result.verdict, SBX_VERDICT_WALL_TIME_LIMIT);
    assert_in_range(run.result.cpu_total_us, 1, 100000 * factor); /* 25 ms, and some periods */
    if (run.result.cpu_total_us > 20000 * factor) /* else the machine gave it less than its share */
        assert_true(run.result.cpu_throttled_us > 0);
    native_run_done(&run);
}

static void too_much_memory_is_the_memory_limit(void **state)
{
    static const char *const programs[] = {
        "exec python3 -c 'x = bytearray(300 << 20)'",
        "python3 -c 'x = bytearray(300 << 20)'; exit 0", /* a child; the leader would exit 0 */
        "python3 -c 'x = bytearray(300 << 20)'; while :; do :; done",
    };

    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(programs); i++) {
        struct native_run run;

        native_client_run(&client, &(struct native_spec){.shell = programs[i]}, &run);
        assert_int_equal(run.result.verdict, SBX_VERDICT_MEMORY_LIMIT);
        assert_true(run.result.oom_kills >= 1);
        assert_int_equal(run.result.has_hit, 1);
        assert_int_equal(run.result.hit.limit, SBX_LIMIT_MEMORY);
        assert_int_equal(run.result.hit.killed_by, SBX_KILLED_BY_OOM_KILLER);
        assert_true(run.result.hit.observed > 120 * MIB);
        assert_true(run.result.wall_us < 9000000 * test_slowness()); /* one kill ends all */
        native_run_done(&run);
    }
}

static const char fork_until_refused[] = "import os, sys, time\n"
                                         "n = 0\n"
                                         "try:\n"
                                         "    while n < 500:\n"
                                         "        if os.fork() == 0:\n"
                                         "            time.sleep(60)\n"
                                         "        n += 1\n"
                                         "except BlockingIOError:\n"
                                         "    pass\n"
                                         "print(n, flush=True)\n"
                                         "os._exit(int(len(sys.argv) > 1))\n";

static void a_fork_bomb_is_refused_at_the_limit(void **state)
{
    struct native_run run;

    (void)state;
    native_client_run(&client, &(struct native_spec){.python = fork_until_refused}, &run);

    assert_int_equal(run.result.verdict, SBX_VERDICT_OK); /* it copes */
    assert_string_equal(cr_buf_str(&run.out[0]), "63\n");
    assert_true(run.result.process_limit_hits > 0);
    assert_int_equal(run.result.killed_leftovers, 63);
    native_run_done(&run);
}

static void a_program_that_fails_for_processes_meets_the_process_limit(void **state)
{
    static const char *const argv[] = {"/usr/bin/python3", "-c", fork_until_refused, "x", NULL};
    struct native_run run;

    (void)state;
    native_client_run(
        &client, &(struct native_spec){.argv = argv, .limits = {[SBX_LIMIT_PROCESSES] = 10}}, &run);

    assert_int_equal(run.result.verdict, SBX_VERDICT_PROCESS_LIMIT);
    assert_int_equal(run.result.exit_code, 1);
    assert_string_equal(cr_buf_str(&run.out[0]), "9\n");
    assert_int_equal(run.result.hit.limit, SBX_LIMIT_PROCESSES);
    assert_int_equal(run.result.hit.value, 10);
    native_run_done(&run);
}

static void files_and_folders_have_limits(void **state)
{
    static const struct row rows[] = {
        {"file size",
         {.shell = "exec head -c 2000000 /dev/zero > f", .limits = {[SBX_LIMIT_FILE_SIZE] = MIB}},
         SBX_VERDICT_FILE_SIZE_LIMIT,
         0,
         SIGXFSZ,
         NULL},
        {"bytes over three folders",
         {.shell = "set -e; for d in /workspace /tmp /dev/shm; do"
                   " head -c 30000000 /dev/zero > $d/f; done"},
         SBX_VERDICT_DISK_LIMIT,
         1,
         0,
         NULL},
        {"inodes",
         {.python = "for i in range(5000): open('f%d' % i, 'w')"},
         SBX_VERDICT_DISK_LIMIT,
         1,
         0,
         NULL},
        {"tolerated",
         {.shell = "head -c 99999999 /dev/zero > f; true"},
         SBX_VERDICT_OK,
         0,
         0,
         NULL},
    };

    (void)state;
    expect_all(rows, CR_ARRAY_SIZE(rows));
}

static void a_forbidden_call_is_a_security_violation(void **state)
{
    static const struct row rows[] = {
        {"ptrace",
         {.python = "import ctypes\n"
                    "ctypes.CDLL(None).ptrace(0, 0, 0, 0)\n"
                    "print('alive')"},
         SBX_VERDICT_SECURITY_VIOLATION,
         0,
         SIGSYS,
         ""},
        {"mount is only refused",
         {.python = "import ctypes\n"
                    "print(ctypes.CDLL(None).mount(b'a', b'/tmp', b'tmpfs', 0, 0))"},
         SBX_VERDICT_OK,
         0,
         0,
         "-1\n"},
    };

    (void)state;
    expect_all(rows, CR_ARRAY_SIZE(rows));
}

static void leftovers_are_killed_and_counted(void **state)
{
    struct native_run run;

    (void)state;
    native_client_run(
        &client, &(struct native_spec){.shell = "setsid sleep 300 & sleep 300 & echo hi"}, &run);

    assert_int_equal(run.result.verdict, SBX_VERDICT_OK);
    assert_string_equal(cr_buf_str(&run.out[0]), "hi\n");
    assert_int_equal(run.result.killed_leftovers, 2);
    assert_true(run.exited_ns - run.started_ns < 9 * CR_NS_PER_S * test_slowness());
    assert_int_equal(native_client_count_programs(&client), 0);
    native_run_done(&run);
}

static void killing_everything_harms_only_the_box(void **state)
{
    static const struct row rows[] = {
        {"kill -9 -1",
         {.shell = "sleep 60 & kill -9 -1; exit 3"},
         SBX_VERDICT_NONZERO_EXIT,
         3,
         0,
         NULL},
        {"kill -9 1", {.shell = "kill -9 1 || exit 4"}, SBX_VERDICT_NONZERO_EXIT, 4, 0, NULL},
        {"still here", {.shell = "echo yes"}, SBX_VERDICT_OK, 0, 0, "yes\n"},
    };

    (void)state;
    expect_all(rows, CR_ARRAY_SIZE(rows));
}

static void cancel_ends_a_run(void **state)
{
    struct native_run run;
    int64_t sent_ns;

    (void)state;
    native_client_send(&client, &run, &(struct native_spec){.shell = "sleep 60 & sleep 60"});
    native_client_wait_started(&client, &run);
    sent_ns = cr_clock_mono_ns();
    native_client_cancel(&client, &run);
    native_client_wait(&client, &run, 1);

    assert_int_equal(run.result.verdict, SBX_VERDICT_CANCELLED);
    assert_int_equal(run.result.signal, SIGKILL);
    assert_true(run.exited_ns - sent_ns < 9 * CR_NS_PER_S * test_slowness());
    assert_int_equal(native_client_count_programs(&client), 0);
    native_run_done(&run);
}

/* Before, while and after the box is built: never an error, never a program that goes on. */
static void cancel_may_come_at_any_time(void **state)
{
    (void)state;
    for (int i = 0; i < 40; i++) {
        struct timespec pause = {.tv_nsec = i * 200000L};
        struct native_run run;

        native_client_send(&client, &run, &(struct native_spec){.shell = "exec sleep 60"});
        assert_int_equal(nanosleep(&pause, NULL), 0);
        native_client_cancel(&client, &run);
        native_client_wait(&client, &run, 1);
        assert_int_equal(run.result.verdict, SBX_VERDICT_CANCELLED);
        assert_int_equal(run.has_started, run.has_exited);
        native_run_done(&run);
    }
    assert_int_equal(native_client_count_programs(&client), 0);
}

static void the_front_reports_too_much_output(void **state)
{
    struct native_run run;

    (void)state;
    native_client_send(&client, &run, &(struct native_spec){.shell = "exec sleep 60"});
    native_client_wait_started(&client, &run);
    native_client_output_limit(&client, &run, 2 * MIB);
    native_client_wait(&client, &run, 1);

    assert_int_equal(run.result.verdict, SBX_VERDICT_OUTPUT_LIMIT);
    assert_int_equal(run.result.hit.limit, SBX_LIMIT_OUTPUT);
    assert_int_equal(run.result.hit.observed, 2 * MIB);
    assert_int_equal(run.result.hit.killed_by, SBX_KILLED_BY_SANDBOXD);
    native_run_done(&run);
}

static void a_file_is_collected_after_the_end(void **state)
{
    struct sbx_collect_header header;
    struct native_run run;

    (void)state;
    native_client_run(&client,
                      &(struct native_spec){.shell = "printf data > out.txt", .collect = "out.txt"},
                      &run);

    assert_int_equal(run.result.verdict, SBX_VERDICT_OK);
    assert_int_equal(run.out[2].size, sizeof(header) + 4);
    memcpy(&header, run.out[2].data, sizeof(header));
    assert_int_equal(header.status, 1);
    assert_int_equal(header.size, 4);
    assert_memory_equal(run.out[2].data + sizeof(header), "data", 4);
    native_run_done(&run);
}

static void runs_beyond_the_slots_and_the_maxima_are_refused(void **state)
{
    struct native_run runs[8];
    struct native_run run;
    uint32_t slots = client.hello.slots;

    (void)state;
    assert_in_range(slots, 1, 6);
    for (uint32_t i = 0; i <= slots; i++)
        native_client_send(
            &client, &runs[i],
            &(struct native_spec){.shell = "sleep 60", .limits = {[SBX_LIMIT_WALL_TIME] = 300}});
    native_client_wait(&client, runs, slots + 1);
    for (uint32_t i = 0; i < slots; i++)
        assert_int_equal(runs[i].result.verdict, SBX_VERDICT_WALL_TIME_LIMIT);
    assert_int_equal(runs[slots].result.verdict, SBX_VERDICT_SANDBOX_ERROR);
    assert_int_equal(runs[slots].result.stage, SBX_STAGE_REFUSED);
    assert_int_equal(runs[slots].result.stage_errno, EBUSY);
    for (uint32_t i = 0; i <= slots; i++)
        native_run_done(&runs[i]);

    native_client_run(
        &client,
        &(struct native_spec){
            .shell = "true",
            .limits = {[SBX_LIMIT_MEMORY] = client.hello.maximum.value[SBX_LIMIT_MEMORY] + 1}},
        &run);
    assert_int_equal(run.result.stage, SBX_STAGE_REFUSED);
    assert_int_equal(run.result.stage_errno, EINVAL);
    native_run_done(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_own_end_of_a_program_is_told_as_it_was),
        cmocka_unit_test(usage_is_measured),
        cmocka_unit_test(a_missing_program_is_exec_failed),
        cmocka_unit_test(endless_programs_meet_the_wall_limit),
        cmocka_unit_test(a_busy_program_meets_the_cpu_limit),
        cmocka_unit_test(cpu_bandwidth_is_held),
        cmocka_unit_test(too_much_memory_is_the_memory_limit),
        cmocka_unit_test(a_fork_bomb_is_refused_at_the_limit),
        cmocka_unit_test(a_program_that_fails_for_processes_meets_the_process_limit),
        cmocka_unit_test(files_and_folders_have_limits),
        cmocka_unit_test(a_forbidden_call_is_a_security_violation),
        cmocka_unit_test(leftovers_are_killed_and_counted),
        cmocka_unit_test(killing_everything_harms_only_the_box),
        cmocka_unit_test(cancel_ends_a_run),
        cmocka_unit_test(cancel_may_come_at_any_time),
        cmocka_unit_test(the_front_reports_too_much_output),
        cmocka_unit_test(a_file_is_collected_after_the_end),
        cmocka_unit_test(runs_beyond_the_slots_and_the_maxima_are_refused),
    };

    if (geteuid() != 0)
        return 77; /* boxes take root */
    return cmocka_run_group_tests(tests, start, stop);
}
