/* SPDX-License-Identifier: Apache-2.0 */

/* Nothing stays behind: after a front or supervisor that went, after SIGKILL. */
#include "common/auto.h"
#include "common/clock.h"
#include "sandboxd/runtimes/table.h"
#include "tests/harness/test.h"
#include "tests/integration/sandboxd/native_client.h"
#include "tests/integration/sandboxd/native_host.h"
#include "tests/integration/sandboxd/native_leftovers.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <sys/mman.h>
#include <sys/wait.h>

#define START_MS 100000
#define REAP_MS 60000U

static void start_some(const struct native_client *client, struct native_run runs[2])
{
    int64_t deadline_ns = cr_clock_mono_ns() + START_MS * CR_NS_PER_MS * test_slowness();

    for (size_t i = 0; i < 2; i++) {
        native_client_send(client, &runs[i],
                           &(struct native_spec){.shell = "setsid sleep 100 & sleep 100"});
        native_client_wait_started(client, &runs[i]);
    }
    /* STARTED is told when pid 1 is, which then forks the program. */
    while (native_client_count_programs(client) == 0) {
        assert_true(cr_clock_mono_ns() < deadline_ns);
        (void)poll(NULL, 0, 1);
    }
}

/* Waits for the end of the backend; returns its wait status. */
static int reap(struct native_client *client)
{
    struct pollfd watch = {.fd = client->pidfd, .events = POLLIN};
    int status = 0;

    assert_int_equal(poll(&watch, 1, (int)(REAP_MS * test_slowness())), 1);
    assert_int_equal(waitpid(client->pid, &status, 0), client->pid);
    cr_close_fd(&client->pidfd);
    cr_close_fd(&client->wire_fd);
    cr_close_fd(&client->lifeline_fd);
    return status;
}

static void expect_clean(const struct native_client *client, struct native_run runs[2])
{
    native_expect_no_processes(client);
    assert_true(native_settles(native_count_groups, client->pid, 0));
    for (size_t i = 0; i < 2; i++)
        native_run_done(&runs[i]);
}

static void the_end_of_the_front_ends_everything(void **state)
{
    struct native_client client;
    struct native_run runs[2];

    (void)state;
    native_client_start(&client, (const char *const[]){"--slots=2", NULL});
    start_some(&client, runs);
    cr_close_fd(&client.wire_fd);

    assert_int_equal(reap(&client), 0);
    expect_clean(&client, runs);
}

static void the_end_of_the_supervisor_ends_everything(void **state)
{
    struct native_client client;
    struct native_run runs[2];

    (void)state;
    native_client_start(&client, (const char *const[]){"--slots=2", NULL});
    start_some(&client, runs);
    cr_close_fd(&client.lifeline_fd);

    assert_int_equal(reap(&client), 0);
    expect_clean(&client, runs);
}

static void an_illegal_message_ends_everything(void **state)
{
    struct native_client client;
    struct native_run runs[2];
    union sbx_msg msg;

    (void)state;
    native_client_start(&client, (const char *const[]){"--slots=2", NULL});
    start_some(&client, runs);
    sbx_msg_init(&msg, SBX_MSG_DRAINED, runs[0].id); /* it is still running */
    assert_int_equal(sbx_msg_send(client.wire_fd, &msg, NULL, 0), 0);

    assert_int_equal(reap(&client), 0);
    expect_clean(&client, runs);
}

/* A folder of the host as stdin, and a payload that could still change. */
static void fds_that_are_no_streams_are_illegal(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct native_client client;
        struct native_run runs[2];
        int pipe_fds[2];
        int fds[SBX_RUN_FDS];
        union sbx_msg msg;

        native_client_start(&client, (const char *const[]){"--slots=3", NULL});
        start_some(&client, runs);
        assert_int_equal(pipe2(pipe_fds, O_CLOEXEC), 0);
        for (int j = 0; j < SBX_RUN_FDS; j++)
            fds[j] = pipe_fds[j > 1];
        fds[0] = memfd_create("payload", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        assert_true(fds[0] >= 0);
        if (i == 0) {
            assert_int_equal(fcntl(fds[0], F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW),
                             0);
            fds[1] = open("/", O_DIRECTORY | O_RDONLY | O_CLOEXEC);
        }
        sbx_msg_init(&msg, SBX_MSG_RUN, 1U << 30);
        msg.run.limits = sbx_default_limits;
        assert_int_equal(sbx_msg_send(client.wire_fd, &msg, fds, SBX_RUN_FDS), 0);

        assert_int_equal(reap(&client), 0);
        expect_clean(&client, runs);
        (void)close(fds[0]);
        if (i == 0)
            (void)close(fds[1]);
        (void)close(pipe_fds[0]);
        (void)close(pipe_fds[1]);
    }
}

static void sigkill_leaves_nothing_behind(void **state)
{
    struct native_client client;
    struct native_run runs[2];

    (void)state;
    native_client_start(&client, (const char *const[]){"--slots=2", NULL});
    start_some(&client, runs);
    assert_int_equal(kill(client.pid, SIGKILL), 0);

    assert_int_equal(reap(&client), SIGKILL);
    expect_clean(&client, runs);
}

/* Also while a box is between clone and exec, where nothing of it is set up yet. */
static void sigkill_may_come_at_any_time(void **state)
{
    (void)state;
    for (int i = 0; i < 25; i++) {
        struct timespec pause = {.tv_nsec = i * 150000L};
        struct native_client client;
        struct native_run runs[2];

        native_client_start(&client, (const char *const[]){"--slots=2", NULL});
        for (size_t j = 0; j < 2; j++)
            native_client_send(&client, &runs[j],
                               &(struct native_spec){.shell = "sleep 100 & exec sleep 100"});
        assert_int_equal(nanosleep(&pause, NULL), 0);
        assert_int_equal(kill(client.pid, SIGKILL), 0);

        assert_int_equal(reap(&client), SIGKILL);
        expect_clean(&client, runs);
    }
}

/* One that was just started has no name yet. */
static pid_t find_spawner(const struct native_client *client, int64_t deadline_ns)
{
    pid_t spawner;

    while ((spawner = native_client_find_child(client, "crisol-spawner")) <= 0) {
        assert_true(cr_clock_mono_ns() < deadline_ns);
        (void)poll(NULL, 0, 1);
    }
    return spawner;
}

static void kill_spawner(const struct native_client *client)
{
    int64_t deadline_ns = cr_clock_mono_ns() + REAP_MS * CR_NS_PER_MS * test_slowness();
    const pid_t spawner = find_spawner(client, deadline_ns);

    assert_int_equal(kill(spawner, SIGKILL), 0);
    /* Reaped: the backend has noticed it, without being asked for anything. */
    while (native_client_find_child(client, "crisol-spawner") == spawner) {
        assert_true(cr_clock_mono_ns() < deadline_ns);
        (void)poll(NULL, 0, 1);
    }
}

/* With boxes that wait, and without any. */
static void a_spawner_that_dies_takes_nobody_with_it(void **state)
{
    static const char *const pools[] = {"--pool=plain=2", "--pool=0"};

    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(pools); i++) {
        struct native_client client;
        struct native_run runs[2];
        struct native_run next;

        native_client_start(&client, (const char *const[]){"--slots=3", pools[i], NULL});
        start_some(&client, runs);
        for (size_t death = 0; death < 3; death++) {
            kill_spawner(&client);
            for (size_t run = 0; run < 4; run++) { /* more than what may wait */
                native_client_run(&client, &(struct native_spec){.shell = "echo next"}, &next);
                assert_int_equal(next.result.verdict, SBX_VERDICT_OK);
                native_run_done(&next);
            }
        }
        for (size_t run = 0; run < 2; run++)
            native_client_cancel(&client, &runs[run]);
        native_client_wait(&client, runs, 2);

        for (size_t run = 0; run < 2; run++)
            assert_int_equal(runs[run].result.verdict, SBX_VERDICT_CANCELLED);
        native_client_stop(&client);
        expect_clean(&client, runs);
    }
}

/* With the keeper gone too, only the next start can clean up. */
static void a_successor_sweeps(void **state)
{
    struct native_client client;
    struct native_client next;
    struct native_run runs[2];
    struct native_run run;
    pid_t keeper;

    (void)state;
    native_client_start(&client, (const char *const[]){"--slots=2", NULL});
    start_some(&client, runs);
    keeper = native_client_find_child(&client, "crisol-keeper");
    assert_true(keeper > 0);
    assert_int_equal(kill(client.pid, SIGSTOP), 0); /* so that it does not see the keeper's end */
    assert_int_equal(kill(keeper, SIGKILL), 0);
    assert_int_equal(kill(client.pid, SIGKILL), 0);
    assert_int_equal(reap(&client), SIGKILL);
    native_expect_no_processes(&client);

    /* Any backend that starts on this host may sweep first; if none does, the groups stay. */
    native_client_start(&next, NULL);
    assert_int_equal(native_count_groups(client.pid), 0);
    native_client_run(&next, &(struct native_spec){.shell = "true"}, &run);
    assert_int_equal(run.result.verdict, SBX_VERDICT_OK);
    native_run_done(&run);
    native_client_stop(&next);
    expect_clean(&client, runs);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_end_of_the_front_ends_everything),
        cmocka_unit_test(the_end_of_the_supervisor_ends_everything),
        cmocka_unit_test(an_illegal_message_ends_everything),
        cmocka_unit_test(fds_that_are_no_streams_are_illegal),
        cmocka_unit_test(sigkill_leaves_nothing_behind),
        cmocka_unit_test(sigkill_may_come_at_any_time),
        cmocka_unit_test(a_spawner_that_dies_takes_nobody_with_it),
        cmocka_unit_test(a_successor_sweeps),
    };

    if (geteuid() != 0)
        return 77; /* boxes take root */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
