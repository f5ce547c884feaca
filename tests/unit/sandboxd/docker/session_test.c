/* SPDX-License-Identifier: Apache-2.0 */

/* A container between two runs of a session, in a control group of ordinary files. */
#include "common/auto.h"
#include "sandboxd/docker/docker.h"
#include "tests/harness/test.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include <sys/epoll.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/wait.h>

#define SESSION 5U

static struct sbx_docker docker; /* large */

static struct {
    pid_t pid; /* stands for the pid 1 of the container */
    int front_fd;
} fake;

static int set_up(void **state)
{
    int pair[2];

    (void)state;
    memset(&docker, 0, sizeof(docker));
    sbx_backend_init(&docker.base, &sbx_docker_ops);
    sbx_cgroup_host_init(&docker.base.cgroups, &sbx_cgroup_v1);
    docker.base.cgroups.hierarchy_count = 1;
    docker.base.cgroups.hierarchy[SBX_CONTROLLER_FREEZER] = 0;
    docker.base.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
        return -1;
    docker.base.link.fd = pair[0];
    fake.front_fd = pair[1];
    sbx_docker_session_init(&docker.sessions[0]);
    sbx_sessions_add(&docker.base, &docker.sessions[0].base);
    docker.sessions[0].base.id = SESSION;
    fake.pid = fork();
    if (fake.pid == 0)
        for (;;)
            (void)pause();
    return fake.pid > 0 ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    (void)kill(fake.pid, SIGKILL);
    (void)waitpid(fake.pid, NULL, 0);
    sbx_backend_close(&docker.base);
    cr_close_fd(&fake.front_fd);
    return 0;
}

/* The interpreter of a run is stopped in it; `freeze_fd` is where the word goes that holds it. */
static struct sbx_docker_session *wait_in_it(int freeze_fd)
{
    struct sbx_docker_session *session = &docker.sessions[0];
    struct sbx_cgroup *group = &session->box.group;

    session->box.step = SBX_DOCKER_MADE;
    session->box.pid = fake.pid;
    session->box.pidfd = pidfd_open(fake.pid, 0);
    session->box.waiting = 1;
    session->box.is_kept = true;
    *group = (struct sbx_cgroup){.host = &docker.base.cgroups, .event_fd = -1, .has_files = true};
    for (int i = 0; i < SBX_CONTROLLER_COUNT; i++)
        group->fds[i] = group->entry_fds[i] = -1;
    for (int i = 0; i < SBX_CGROUP_FILE_COUNT; i++)
        group->file_fds[i] = -1;
    group->file_fds[SBX_CGROUP_FILE_FREEZE] = freeze_fd;
    session->box.has_group = true;
    return session;
}

/* The relay of the last run ends, and says that the connection is free. */
static void end_relay(struct sbx_docker_session *session)
{
    siginfo_t info;
    pid_t pid = fork();

    if (pid == 0)
        _exit(SBX_RELAY_RESTED);
    assert_true(pid > 0);
    session->relay = (struct sbx_relay){.pid = pid, .pidfd = pidfd_open(pid, 0), .control_fd = -1};
    assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
    sbx_docker_session_on_event(&docker);
}

static void assert_lost(void)
{
    union sbx_msg msg;
    int fds[SBX_RUN_FDS];
    size_t count;

    assert_int_equal(sbx_msg_receive(fake.front_fd, &msg, fds, &count, NULL), 0);
    assert_int_equal(msg.header.type, SBX_MSG_CLOSED);
    assert_int_equal(msg.closed.reason, SBX_CLOSED_LOST);
    assert_int_equal(waitpid(fake.pid, NULL, 0), fake.pid); /* killed with what was in it */
}

static void what_waits_is_frozen_when_its_run_has_left(void **state)
{
    struct sbx_docker_session *session = wait_in_it(open("/dev/null", O_RDWR | O_CLOEXEC));

    (void)state;
    end_relay(session);
    assert_true(session->box.is_frozen);
    assert_true(session->base.still_by_ns < INT64_MAX);
    assert_int_equal(session->base.id, SESSION);
    assert_true(sbx_docker_session_check(&docker.base, &session->base, false));
    assert_false(sbx_docker_session_check(&docker.base, &session->base, true)); /* nobody says */
    assert_lost(); /* it stands still */
}

static void what_cannot_be_frozen_does_not_wait(void **state)
{
    struct sbx_docker_session *session = wait_in_it(open("/dev/null", O_RDONLY | O_CLOEXEC));

    (void)state;
    end_relay(session);
    assert_lost();
}

/* Where no group can be frozen, the controls say so. */
static void what_nobody_can_freeze_waits_all_the_same(void **state)
{
    struct sbx_docker_session *session = wait_in_it(-1);

    (void)state;
    docker.base.cgroups.hierarchy[SBX_CONTROLLER_FREEZER] = -1;
    end_relay(session);
    assert_false(session->box.is_frozen);
    assert_int_equal(session->base.id, SESSION);
    sbx_docker_session_drop(&docker.base, &session->base);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_waits_is_frozen_when_its_run_has_left, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(what_cannot_be_frozen_does_not_wait, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_nobody_can_freeze_waits_all_the_same, set_up,
                                        tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
