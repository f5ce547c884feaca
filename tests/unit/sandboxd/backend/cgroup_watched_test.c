/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/err.h"
#include "sandboxd/backend/cgroup_watched.h"
#include "sandboxd/wire/msg.h"
#include "tests/harness/test.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#define BYTES (UINT64_C(24) << 20)

static void stat_is_read_behind_any_name(void **state)
{
    static const char *const bad[] = {
        "",
        "1 (a) S 1",
        "1 (a S 1 1 1 0 -1 4194304 1 2 3 4 10 20 30 40",
        "1 (a) S 1 1 1 0 -1 4194304 1 2 3 4 10 20 -30 40",
    };
    uint64_t user = 0;
    uint64_t system = 0;

    (void)state;
    assert_int_equal(sbx_watch_parse_stat("7 (a) R (b) S 1 7 7 0 -1 4194304 1 2 3 4 10 20 30 40 20",
                                          &user, &system),
                     0);
    assert_int_equal(user, 40);
    assert_int_equal(system, 60);
    for (size_t i = 0; i < CR_ARRAY_SIZE(bad); i++)
        assert_int_equal(sbx_watch_parse_stat(bad[i], &user, &system), -EPROTO);
}

static void rollup_counts_what_is_swapped_out(void **state)
{
    (void)state;
    assert_int_equal(sbx_watch_parse_rollup("55-7ff ---p 00 00:00 0 [rollup]\nRss: 900 kB\n"
                                            "Pss:     100 kB\nPss_Dirty: 7 kB\nSwap: 5 kB\n"
                                            "SwapPss:   4 kB\n"),
                     104 << 10);
    assert_int_equal(sbx_watch_parse_rollup(""), 0);
}

/* A "box" of two: the second has the memory. */
static _Noreturn void be_box(int ready_fd)
{
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (fork() == 0) {
        void *memory =
            mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (memory != MAP_FAILED)
            memset(memory, 1, BYTES);
        (void)!write(ready_fd, "x", 1);
        for (;;)
            (void)pause();
    }
    for (;;)
        (void)pause();
}

static void processes_are_looked_at_from_the_first_down(void **state)
{
    struct sbx_limits limits = {
        .value = {[SBX_LIMIT_MEMORY] = BYTES / 2, [SBX_LIMIT_PROCESSES] = 1}};
    struct sbx_cgroup_usage usage;
    struct sbx_cgroup_host host = {0};
    struct sbx_cgroup group;
    uint64_t kills = 0;
    char byte;
    int ready[2];
    pid_t pid;

    (void)state;
    assert_int_equal(pipe(ready), 0);
    pid = fork();
    if (pid == 0)
        be_box(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    sbx_cgroup_host_watch(&host);
    assert_int_equal(sbx_cgroup_open(&host, 1, &group, NULL), 0);
    assert_int_equal(sbx_cgroup_limit(&group, &limits, NULL), 0);
    sbx_cgroup_watch(&group, pid);

    assert_int_equal(sbx_cgroup_usage(&group, &usage, NULL), 0);
    assert_true(usage.memory_peak_bytes >= BYTES && usage.memory_peak_bytes < 2 * BYTES);
    assert_int_equal(usage.processes_peak, 1);
    assert_int_equal(usage.process_limit_hits, 1);
    assert_int_equal(sbx_cgroup_oom_kills(&group, &kills), 0);
    assert_int_equal(kills, 1);

    (void)kill(pid, SIGKILL);
    (void)waitpid(pid, NULL, 0);
    sbx_cgroup_watch_end(&group, 5, 6);
    assert_int_equal(sbx_cgroup_usage(&group, &usage, NULL), 0);
    assert_true(usage.cpu_total_us >= 11 && usage.memory_peak_bytes >= BYTES);
    sbx_cgroup_close(&group);
    (void)close(ready[0]);
    (void)close(ready[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stat_is_read_behind_any_name),
        cmocka_unit_test(rollup_counts_what_is_swapped_out),
        cmocka_unit_test(processes_are_looked_at_from_the_first_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
