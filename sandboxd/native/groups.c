/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/err.h"
#include "common/log.h"
#include "sandboxd/native/native.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include <sys/epoll.h>

/* One more group, and those that failed before. */
static int ask(struct sbx_native *native)
{
    struct sbx_groups *groups = &native->groups;

    groups->missing++;
    while (groups->missing > 0) {
        bool is_netless = groups->netless < groups->spare_net_count;
        int r = sbx_keeper_make(&native->keeper, groups->next_number, !is_netless);

        if (r < 0)
            return r;
        groups->netless += is_netless;
        groups->next_number++;
        groups->missing--;
    }
    return 0;
}

int sbx_groups_start(struct sbx_native *native, struct cr_err *err)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);

    native->groups.shells_most = (cores > 0 ? (uint32_t)cores : 1) + SBX_GROUPS_SPARE;
    for (uint32_t i = 0; i < native->place_count + SBX_GROUPS_SPARE; i++) {
        int r = ask(native);

        if (r < 0)
            return cr_err_sys(err, -r, "ask the keeper for a control group");
    }
    return 0;
}

/* A box that was begun earlier has had more time to get ready; a group that was used lately is
 * warm. */
static int find(const struct sbx_groups *groups, bool with_shell)
{
    int found = -1;

    for (uint32_t i = 0; i < groups->ready_count; i++) {
        if ((groups->ready[i].shell.pidfd >= 0) != with_shell)
            continue;
        found = (int)i;
        if (with_shell)
            break;
    }
    return found;
}

int sbx_groups_start_spawner(struct sbx_native *native, struct cr_err *err)
{
    const uint32_t weakened = native->base.weakened;
    const struct sbx_spawner_plan plan = {
        .init_fd = native->init_fd,
        .seccomp_fd = native->seccomp_fd,
        .left_out = weakened == SBX_WEAKEN_NOTHING ? NULL : sbx_control_name(weakened),
    };

    return sbx_spawner_start(&plan, &native->spawner, err);
}

void sbx_groups_stop_spawner(struct sbx_native *native)
{
    if (native->spawner.fd >= 0)
        sbx_backend_unwatch(&native->base, native->spawner.fd);
    sbx_spawner_stop(&native->spawner);
}

int sbx_groups_watch_spawner(struct sbx_native *native, struct cr_err *err)
{
    int r = sbx_backend_watch(&native->base, native->spawner.fd, EPOLLIN, SBX_NATIVE_WATCH_SPAWNER,
                              NULL);

    return r < 0 ? cr_err_sys(err, -r, "watch the spawner") : 0;
}

/* In the place of one that is gone. */
static int renew_spawner(struct sbx_native *native, struct cr_err *err)
{
    int r;

    sbx_groups_stop_spawner(native);
    r = sbx_groups_start_spawner(native, err);
    if (r == 0)
        r = sbx_groups_watch_spawner(native, err);
    return r;
}

int sbx_groups_begin_box(struct sbx_native *native, const struct sbx_cgroup *group, int net_fd,
                         struct sbx_box *ret_box, struct cr_err *err)
{
    const struct sbx_box_shell shell = {
        .spawner = &native->spawner,
        .group = group,
        .net_fd = net_fd,
    };
    int r = sbx_box_begin(&shell, ret_box, err);

    if (r != -ENOTCONN)
        return r;
    cr_log_warn("the spawner is gone, starting another");
    if (err)
        *err = (struct cr_err)CR_ERR_INIT;
    r = renew_spawner(native, err);
    return r < 0 ? r : sbx_box_begin(&shell, ret_box, err);
}

/* A group and a network in which nothing is left of their run are those of another one. */
static bool renew(struct sbx_native *native, struct sbx_cgroup *group, int *net_fd)
{
    struct sbx_groups *groups = &native->groups;

    if (*net_fd < 0 || native->base.is_stopping || groups->ready_count == SBX_GROUPS_MAX ||
        sbx_cgroup_renew(group) < 0)
        return false;
    /* An event of the run before is none of the next one. */
    if (group->event_fd >= 0 && sbx_cgroup_hear(group) < 0)
        return false;
    groups->ready[groups->ready_count++] = (struct sbx_ready_group){
        .group = *group, .net_fd = cr_take_fd(net_fd), .shell = SBX_BOX_INIT};
    groups->has_news = true;
    return true;
}

static void drop_workspace(const struct sbx_native *native, int *workspace_fd)
{
    int r = sbx_keeper_drop(&native->keeper, *workspace_fd);

    if (r < 0)
        cr_log_error("cannot hand a workspace to the keeper, dropping it error=%s",
                     strerrordesc_np(-r));
    cr_close_fd(workspace_fd);
}

void sbx_groups_give_back(struct sbx_native *native, struct sbx_cgroup *group, int *net_fd,
                          int *workspace_fd)
{
    struct sbx_groups *groups = &native->groups;
    uint32_t number = group->number;
    int r;

    if (renew(native, group, net_fd)) {
        drop_workspace(native, workspace_fd);
        return;
    }
    if (*net_fd >= 0 && groups->spare_net_count < SBX_GROUPS_MAX)
        groups->spare_nets[groups->spare_net_count++] = cr_take_fd(net_fd);
    cr_close_fd(net_fd);

    sbx_cgroup_close(group); /* before the removal: a reader's eventfd is told about it */
    if (!native->base.is_stopping) {
        r = ask(native);
        if (r < 0)
            cr_log_error("cannot ask the keeper for a control group error=%s", strerrordesc_np(-r));
    }
    r = sbx_keeper_remove(&native->keeper, number, *workspace_fd);
    if (r < 0)
        cr_log_error("cannot hand a control group back, leaving it to the sweep number=%" PRIu32
                     " error=%s",
                     number, strerrordesc_np(-r));
    cr_close_fd(workspace_fd);
}

/* Out of the list. False: none is ready. */
static bool take_out(struct sbx_groups *groups, bool with_shell, struct sbx_ready_group *ret_group)
{
    struct sbx_ready_group *found;
    int index = with_shell ? find(groups, true) : -1;

    if (index < 0)
        index = find(groups, false);
    if (index < 0)
        return false;
    found = &groups->ready[index];
    *ret_group = *found;
    groups->shell_count -= found->shell.pidfd >= 0;
    groups->ready_count--;
    memmove(found, found + 1, (groups->ready_count - (uint32_t)index) * sizeof(*found));
    return true;
}

/* Somebody killed its box. When that was the kernel, for want of memory, the group has counted it,
 * and the next run would be blamed. */
static void give_back_dead(struct sbx_native *native, struct sbx_ready_group *group)
{
    int no_workspace = -1;

    sbx_box_reap(&group->shell);
    sbx_groups_give_back(native, &group->group, &group->net_fd, &no_workspace);
}

int sbx_groups_take(struct sbx_native *native, bool with_shell, struct sbx_cell *cell)
{
    struct sbx_ready_group group;

    while (take_out(&native->groups, with_shell, &group)) {
        if (sbx_box_is_dead(&group.shell)) {
            give_back_dead(native, &group);
            continue;
        }
        cell->group = group.group;
        cell->net_fd = group.net_fd;
        cell->box = group.shell;
        return 0;
    }
    return -EAGAIN;
}

/* With all that is used of it, for as long as it lives. */
static int open_group(const struct sbx_native *native, uint32_t number,
                      struct sbx_cgroup *ret_group, struct cr_err *err)
{
    struct sbx_cgroup group;
    int r = sbx_cgroup_open(&native->base.cgroups, number, &group, err);

    if (r < 0)
        return r;
    r = sbx_cgroup_arm(&group, err);
    if (r == 0)
        r = sbx_cgroup_open_files(&group, err);
    if (r < 0)
        sbx_cgroup_close(&group);
    else
        *ret_group = group;
    return r;
}

/* Takes *net_fd when the group is there. */
static void on_made(struct sbx_native *native, const struct sbx_keeper_msg *msg, int *net_fd)
{
    struct sbx_groups *groups = &native->groups;
    struct sbx_ready_group *ready = &groups->ready[groups->ready_count];
    struct cr_err err = CR_ERR_INIT;
    int r = -msg->error;

    groups->netless -= msg->op == SBX_KEEPER_MAKE_NETLESS;
    if (r == 0 && groups->ready_count == SBX_GROUPS_MAX)
        r = -ENOSPC; /* cannot be: no more are asked for */
    if (r == 0)
        r = open_group(native, msg->number, &ready->group, &err);
    if (r < 0) {
        cr_log_error("a control group is missing number=%" PRIu32 " error=%s", msg->number,
                     err.code < 0 ? err.text : strerrordesc_np(-r));
        groups->missing++;
        return;
    }
    ready->net_fd = cr_take_fd(net_fd);
    if (ready->net_fd < 0 && groups->spare_net_count > 0)
        ready->net_fd = groups->spare_nets[--groups->spare_net_count];
    ready->shell = (struct sbx_box)SBX_BOX_INIT;
    groups->ready_count++;
}

/* Without one a box is begun when it is needed, which costs time and nothing else. */
void sbx_groups_begin_boxes(struct sbx_native *native)
{
    struct sbx_groups *groups = &native->groups;

    for (uint32_t i = groups->ready_count; i > 0 && !native->base.is_stopping; i--) {
        struct sbx_ready_group *ready = &groups->ready[i - 1];
        struct cr_err err = CR_ERR_INIT;

        if (groups->shell_count >= groups->shells_most)
            return;
        if (ready->shell.pidfd >= 0)
            continue;
        if (sbx_groups_begin_box(native, &ready->group, ready->net_fd, &ready->shell, &err) < 0) {
            cr_log_warn("cannot begin a box ahead error=\"%s\"", err.text);
            return;
        }
        groups->shell_count++;
    }
}

int sbx_groups_on_keeper(struct sbx_native *native)
{
    struct sbx_groups *groups = &native->groups;
    struct sbx_keeper_msg msg;
    int net_fd = -1;
    int r;

    while ((r = sbx_keeper_receive(&native->keeper, &msg, &net_fd)) == 0) {
        if (msg.op == SBX_KEEPER_MAKE || msg.op == SBX_KEEPER_MAKE_NETLESS)
            on_made(native, &msg, &net_fd);
        cr_close_fd(&net_fd);
    }
    groups->has_news = true;
    return r == -EAGAIN || r == -EINTR ? 0 : -EPIPE;
}

void sbx_groups_on_time(struct sbx_native *native)
{
    if (!native->groups.has_news)
        return;
    native->groups.has_news = false;
    for (uint32_t i = 0; i < native->base.slot_count; i++) {
        if (native->runs[i].job.state == SBX_JOB_STARTING)
            sbx_run_on_group(native, &native->runs[i]);
    }
    sbx_groups_begin_boxes(native);
}

void sbx_groups_close(struct sbx_groups *groups)
{
    while (groups->ready_count > 0) {
        struct sbx_ready_group *ready = &groups->ready[--groups->ready_count];

        sbx_box_kill(&ready->shell);
        sbx_box_reap(&ready->shell);
        sbx_cgroup_close(&ready->group);
        cr_close_fd(&ready->net_fd);
    }
    groups->shell_count = 0;
    while (groups->spare_net_count > 0)
        cr_close_fd(&groups->spare_nets[--groups->spare_net_count]);
}
