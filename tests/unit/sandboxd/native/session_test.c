/* SPDX-License-Identifier: Apache-2.0 */

/* An interpreter that waits, in a control group of ordinary files that take no word. */
#include "common/auto.h"
#include "sandboxd/backend/job.h"
#include "sandboxd/native/native.h"
#include "tests/harness/test.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/wait.h>

#define SESSION 5U

static struct sbx_native native; /* large */

static struct {
    pid_t pid;
    int init_fd; /* sandbox-init's end of the control socket */
} box;

/* A cell whose box is a child of ours that waits, and whose group is frozen with `freeze_fd`. */
static struct sbx_cell make_cell(int freeze_fd, bool is_frozen)
{
    struct sbx_cell cell = SBX_CELL_INIT;
    int pair[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    box.init_fd = pair[1];
    box.pid = fork();
    if (box.pid == 0)
        for (;;)
            (void)pause();
    assert_true(box.pid > 0);
    cell.place = 0;
    cell.is_frozen = is_frozen;
    cell.group = (struct sbx_cgroup){.host = &native.base.cgroups, .event_fd = -1};
    for (int i = 0; i < SBX_CONTROLLER_COUNT; i++)
        cell.group.fds[i] = cell.group.entry_fds[i] = -1;
    for (int i = 0; i < SBX_CGROUP_FILE_COUNT; i++)
        cell.group.file_fds[i] = -1;
    cell.group.has_files = true;
    cell.group.file_fds[SBX_CGROUP_FILE_FREEZE] = freeze_fd;
    cell.box =
        (struct sbx_box){.pid = box.pid, .pidfd = pidfd_open(box.pid, 0), .control_fd = pair[0]};
    return cell;
}

static int set_up(void **state)
{
    (void)state;
    memset(&native, 0, sizeof(native));
    sbx_backend_init(&native.base, &sbx_native_ops);
    sbx_cgroup_host_init(&native.base.cgroups, &sbx_cgroup_v1);
    native.base.cgroups.hierarchy_count = 1;
    native.base.cgroups.hierarchy[SBX_CONTROLLER_FREEZER] = 0;
    native.base.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    native.vault.proc_fd = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
    sbx_run_init(&native.runs[0], 0);
    sbx_sessions_add(&native.base, &native.sessions[0].base);
    native.sessions[0].base.id = SESSION;
    native.runs[0].job.session = SESSION;
    native.runs[0].job.flags = SBX_RUN_HAS_CELL;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    (void)kill(box.pid, SIGKILL);
    (void)waitpid(box.pid, NULL, 0);
    cr_close_fd(&box.init_fd);
    cr_close_fd(&native.vault.proc_fd);
    cr_close_fd(&native.base.epoll_fd);
    return 0;
}

static int open_null(int flags)
{
    return open("/dev/null", flags | O_CLOEXEC);
}

static void one_that_is_frozen_is_kept(void **state)
{
    struct sbx_run *run = &native.runs[0];
    struct sbx_cell cell = make_cell(open_null(O_RDWR), false);

    (void)state;
    run->cell = cell;
    run->job.control_fd = cell.box.control_fd;
    run->cell.box.control_fd = -1;
    assert_int_equal(sbx_run_park(&native.base, &run->job), 0);
    assert_true(run->cell.is_frozen);
    assert_int_equal(run->cell.box.control_fd, cell.box.control_fd);
    assert_int_equal(run->job.control_fd, -1);
}

static void one_that_cannot_be_frozen_is_not(void **state)
{
    struct sbx_run *run = &native.runs[0];
    struct sbx_cell cell = make_cell(open_null(O_RDONLY), false);

    (void)state;
    run->cell = cell;
    run->job.control_fd = cell.box.control_fd;
    run->cell.box.control_fd = -1;
    assert_int_equal(sbx_run_park(&native.base, &run->job), -EROFS);
    assert_int_equal(run->job.control_fd, cell.box.control_fd);
    native.base.cgroups.hierarchy[SBX_CONTROLLER_FREEZER] = -1; /* nor does anybody say it can */
    assert_int_equal(sbx_run_park(&native.base, &run->job), 0);
    assert_false(run->cell.is_frozen);
}

/* What the run before it used up is not its own. */
static void a_new_run_is_not_behind_others(void **state)
{
    struct sbx_native_session *session = &native.sessions[0];
    struct sbx_run *run = &native.runs[0];
    int weight_fd = memfd_create("cpu.shares", MFD_CLOEXEC);
    char text[8] = "";

    (void)state;
    native.base.cgroups.hierarchy[SBX_CONTROLLER_CPU] = 0;
    session->cell = make_cell(open_null(O_RDWR), true);
    session->cell.group.fds[0] = weight_fd;
    session->cell.group.file_fds[SBX_CGROUP_FILE_CPU_WEIGHT] = weight_fd;
    sbx_cgroup_fall_behind(&session->cell.group);
    assert_true(session->cell.group.is_behind);
    assert_int_equal(ftruncate(weight_fd, 0), 0); /* a file of the kernel is written as a whole */
    for (int i = 0; i < SBX_INIT_LOAD_FDS; i++)
        run->job.fds[i] = open_null(O_RDWR);

    assert_true(sbx_native_session_enter(&native, run));
    assert_false(run->cell.group.is_behind);
    assert_int_equal(pread(weight_fd, text, sizeof(text), 0), 4);
    assert_memory_equal(text, "1024", 4);
    cr_close_fd(&weight_fd);
}

/* It would not hear what it is to do, until its run is given up. */
static void one_that_stays_frozen_is_replaced(void **state)
{
    struct sbx_native_session *session = &native.sessions[0];

    (void)state;
    session->cell = make_cell(open_null(O_RDONLY), true);
    for (int i = 0; i < SBX_INIT_LOAD_FDS; i++)
        native.runs[0].job.fds[i] = open_null(O_RDWR);
    assert_false(sbx_native_session_enter(&native, &native.runs[0]));
    assert_int_equal(session->cell.box.pidfd, -1);
    assert_int_equal(native.ending.count, 1);
    assert_int_equal(waitpid(box.pid, NULL, 0), box.pid); /* it was killed */
}

static void one_that_does_not_stand_still_is_let_go(void **state)
{
    struct sbx_native_session *session = &native.sessions[0];

    (void)state;
    session->cell = make_cell(open_null(O_RDWR), true);
    assert_true(sbx_native_session_check(&native.base, &session->base, false));
    assert_int_equal(native.ending.count, 0);
    assert_false(sbx_native_session_check(&native.base, &session->base, true)); /* nobody says */
    assert_int_equal(native.ending.count, 1); /* it stands still */
    assert_false(native.ending.cells[0].is_frozen);
    assert_false(sbx_native_session_check(&native.base, &session->base, false));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(one_that_is_frozen_is_kept, set_up, tear_down),
        cmocka_unit_test_setup_teardown(one_that_cannot_be_frozen_is_not, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_new_run_is_not_behind_others, set_up, tear_down),
        cmocka_unit_test_setup_teardown(one_that_stays_frozen_is_replaced, set_up, tear_down),
        cmocka_unit_test_setup_teardown(one_that_does_not_stand_still_is_let_go, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
