/* SPDX-License-Identifier: Apache-2.0 */

/* Groups that are ready, with the first halves of boxes in some of them. */
#include "common/auto.h"
#include "sandboxd/native/native.h"
#include "tests/harness/test.h"

#include <poll.h>
#include <string.h>
#include <unistd.h>

#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/wait.h>

static const struct sbx_cgroup_ops no_ops = {.version = 2};
static const struct sbx_cgroup_host host = {.ops = &no_ops};
static struct sbx_native native;

static void add(uint32_t number, struct sbx_box shell)
{
    struct sbx_groups *groups = &native.groups;
    struct sbx_ready_group *ready = &groups->ready[groups->ready_count++];

    *ready = (struct sbx_ready_group){
        .group = {.host = &host, .number = number, .event_fd = -1}, .net_fd = -1, .shell = shell};
    for (int i = 0; i < SBX_CONTROLLER_COUNT; i++)
        ready->group.fds[i] = -1;
    groups->shell_count += shell.pidfd >= 0;
}

static struct sbx_box dead_shell(void)
{
    struct sbx_box box = SBX_BOX_INIT;
    struct pollfd end;

    box.pid = fork();
    assert_true(box.pid >= 0);
    if (box.pid == 0)
        _exit(1);
    box.pidfd = pidfd_open(box.pid, 0);
    assert_true(box.pidfd >= 0);
    end = (struct pollfd){.fd = box.pidfd, .events = POLLIN};
    assert_int_equal(poll(&end, 1, 30000), 1);
    return box;
}

/* What killed it has been counted in the group, and would be taken for the end of the next run. */
static void the_group_of_a_dead_shell_is_not_used(void **state)
{
    struct sbx_cell cell = {.net_fd = -1, .box = SBX_BOX_INIT};
    struct sbx_keeper_msg msg;
    int ends[2];

    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends),
                     0);
    native.keeper.fd = ends[0];
    native.groups.next_number = 3;
    add(1, dead_shell());
    add(2, (struct sbx_box)SBX_BOX_INIT);

    assert_int_equal(sbx_groups_take(&native, true, &cell), 0);
    assert_int_equal(cell.group.number, 2);
    assert_int_equal(cell.box.pidfd, -1);
    assert_int_equal(native.groups.shell_count, 0);
    assert_int_equal(native.groups.ready_count, 0);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);

    assert_int_equal(recv(ends[1], &msg, sizeof(msg), 0), sizeof(msg));
    assert_int_equal(msg.op, SBX_KEEPER_MAKE);
    assert_int_equal(msg.number, 3);
    assert_int_equal(recv(ends[1], &msg, sizeof(msg), 0), sizeof(msg));
    assert_int_equal(msg.op, SBX_KEEPER_REMOVE);
    assert_int_equal(msg.number, 1);
    cr_close_fd(&ends[0]);
    cr_close_fd(&ends[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_group_of_a_dead_shell_is_not_used),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
