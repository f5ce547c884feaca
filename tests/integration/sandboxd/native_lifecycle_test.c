/* SPDX-License-Identifier: Apache-2.0 */

/* What a backend does for many runs, one after the other and at one time. */
#include "common/auto.h"
#include "tests/harness/test.h"
#include "tests/integration/sandboxd/native_client.h"
#include "tests/integration/sandboxd/native_host.h"
#include "tests/integration/sandboxd/native_leftovers.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

#define SOAK_RUNS 200
#define START_US 4000000U
#define SLOTS_MANY 16

static const struct native_spec mixed[] = {
    {.shell = "true"},
    {.shell = "exit 3"},
    {.shell = "echo hi; setsid sleep 100 &"},
    {.shell = "sleep 100", .limits = {[SBX_LIMIT_WALL_TIME] = 20}},
    {.shell = "while :; do :; done", .limits = {[SBX_LIMIT_WALL_TIME] = 20}},
    {.shell = "head -c 40000000 /dev/zero > /tmp/x", .limits = {[SBX_LIMIT_MEMORY] = 20 << 20}},
    {.shell = "printf data > f", .collect = "f"},
    {.shell = "for i in 1 2 3 4 5 6 7 8 9; do sleep 9 & done; wait",
     .limits = {[SBX_LIMIT_PROCESSES] = 4, [SBX_LIMIT_WALL_TIME] = 20}},
    {.shell = "kill -9 -1"},
};

static void many_runs_leave_nothing_behind(void **state)
{
    const size_t rounds = test_slowness() == 1 ? SOAK_RUNS / 2 : 2 * CR_ARRAY_SIZE(mixed);
    struct native_client client;
    struct native_run runs[2];
    int fds;
    int mounts;
    int groups;

    (void)state;
    native_client_start(&client, (const char *const[]){"--slots=2", NULL});
    for (size_t i = 0; i < 2; i++) {
        native_client_run(&client, &mixed[0], &runs[0]);
        native_run_done(&runs[0]);
    }
    fds = native_count_steady_fds(client.pid);
    mounts = native_count_mounts(client.pid);
    groups = native_count_groups(client.pid);
    for (size_t i = 0; i < rounds; i++) {
        for (size_t j = 0; j < 2; j++)
            native_client_send(&client, &runs[j], &mixed[(2 * i + j) % CR_ARRAY_SIZE(mixed)]);
        native_client_wait(&client, runs, 2);
        for (size_t j = 0; j < 2; j++) {
            assert_int_not_equal(runs[j].result.verdict, SBX_VERDICT_SANDBOX_ERROR);
            native_run_done(&runs[j]);
        }
    }

    assert_int_equal(native_client_count_programs(&client), 0);
    assert_int_equal(native_count_steady_fds(client.pid), fds);
    assert_true(native_settles(native_count_groups, client.pid, groups));
    assert_int_equal(native_count_mounts(client.pid), mounts);
    native_client_stop(&client);
    assert_int_equal(native_count_groups(client.pid), 0);
}

static void all_slots_work_at_one_time(void **state)
{
    struct native_client client;
    struct native_run runs[SLOTS_MANY];

    (void)state;
    native_client_start(&client, (const char *const[]){"--slots=16", NULL});
    assert_int_equal(client.hello.slots, SLOTS_MANY);
    for (size_t i = 0; i < SLOTS_MANY; i++)
        native_client_send(
            &client, &runs[i],
            &(struct native_spec){
                .shell = "id -u; cat f", .file_name = "f", .file_text = "own\n", .collect = "f"});
    native_client_wait(&client, runs, SLOTS_MANY);
    for (size_t i = 0; i < SLOTS_MANY; i++) {
        assert_int_equal(runs[i].result.verdict, SBX_VERDICT_OK);
        assert_string_equal(cr_buf_str(&runs[i].out[0]), "1000\nown\n");
        assert_int_equal(runs[i].out[2].size, sizeof(struct sbx_collect_header) + 4);
        native_run_done(&runs[i]);
    }
    native_client_stop(&client);
}

static void a_small_cpu_share_does_not_hold_up_the_start(void **state)
{
    static char text[3U << 20]; /* some milliseconds of work; a second each with this share */
    struct native_client client;
    struct native_run run;

    (void)state;
    memset(text, 'x', sizeof(text) - 1);
    native_client_start(&client, NULL);
    native_client_run(&client,
                      &(struct native_spec){
                          .shell = "while :; do :; done",
                          .file_name = "f",
                          .file_text = text,
                          .limits = {[SBX_LIMIT_CPU_MILLICORES] = 1, [SBX_LIMIT_WALL_TIME] = 9}},
                      &run);

    assert_int_equal(run.result.verdict, SBX_VERDICT_WALL_TIME_LIMIT);
    assert_in_range(run.result.prepare_us, 1, START_US * test_slowness());
    native_run_done(&run);
    native_client_stop(&client);
}

static void sigterm_is_the_supervisors_business(void **state)
{
    struct native_client client;
    struct native_run run;

    (void)state;
    native_client_start(&client, NULL);
    assert_int_equal(kill(client.pid, SIGTERM), 0);
    native_client_run(&client, &mixed[0], &run);

    assert_int_equal(run.result.verdict, SBX_VERDICT_OK);
    native_run_done(&run);
    native_client_stop(&client);
}

static void neighbours_do_not_sweep_each_other(void **state)
{
    struct native_client first;
    struct native_client second;
    struct native_run run;

    (void)state;
    native_client_start(&first, NULL);
    native_client_send(&first, &run, &(struct native_spec){.shell = "read x || sleep 0.3"});
    native_client_wait_started(&first, &run);
    native_client_start(&second, NULL);
    native_client_wait(&first, &run, 1);

    assert_int_equal(run.result.verdict, SBX_VERDICT_OK);
    native_run_done(&run);
    native_client_stop(&second);
    native_client_stop(&first);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(many_runs_leave_nothing_behind),
        cmocka_unit_test(all_slots_work_at_one_time),
        cmocka_unit_test(a_small_cpu_share_does_not_hold_up_the_start),
        cmocka_unit_test(sigterm_is_the_supervisors_business),
        cmocka_unit_test(neighbours_do_not_sweep_each_other),
    };

    if (geteuid() != 0)
        return 77; /* boxes take root */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
