/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/err.h"
#include "common/log.h"
#include "sandboxd/native/native.h"

#include <inttypes.h>
#include <string.h>

/* One more group, and those that failed before. */
static int ask(struct sbx_native *native)
{
    struct sbx_groups *groups = &native->groups;

    groups->missing++;
    while (groups->missing > 0) {
        int r = sbx_keeper_make(&native->keeper, groups->next_number);

        if (r < 0)
            return r;
        groups->next_number++;
        groups->missing--;
    }
    return 0;
}

int sbx_groups_start(struct sbx_native *native, struct cr_err *err)
{
    for (uint32_t i = 0; i < native->place_count + SBX_GROUPS_SPARE; i++) {
        int r = ask(native);

        if (r < 0)
            return cr_err_sys(err, -r, "ask the keeper for a control group");
    }
    return 0;
}

int sbx_groups_take(struct sbx_native *native, struct sbx_cgroup *ret_group, int *ret_net_fd)
{
    struct sbx_groups *groups = &native->groups;

    if (groups->ready_count == 0)
        return -EAGAIN;
    groups->ready_count--;
    *ret_group = groups->ready[groups->ready_count];
    *ret_net_fd = cr_take_fd(&groups->net_fds[groups->ready_count]);
    return 0;
}

void sbx_groups_give_back(struct sbx_native *native, struct sbx_cgroup *group, int *workspace_fd)
{
    uint32_t number = group->number;
    int r;

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

/* Takes *net_fd when the group is there. */
static void on_made(struct sbx_native *native, const struct sbx_keeper_msg *msg, int *net_fd)
{
    struct sbx_groups *groups = &native->groups;
    struct cr_err err = CR_ERR_INIT;
    int r = -msg->error;

    if (r == 0 && groups->ready_count < SBX_GROUPS_MAX)
        r = sbx_cgroup_open(&native->base.cgroups, msg->number, &groups->ready[groups->ready_count],
                            &err);
    if (r < 0) {
        cr_log_error("a control group is missing number=%" PRIu32 " error=%s", msg->number,
                     err.code < 0 ? err.text : strerrordesc_np(-r));
        groups->missing++;
        return;
    }
    groups->net_fds[groups->ready_count++] = cr_take_fd(net_fd);
}

int sbx_groups_on_keeper(struct sbx_native *native)
{
    struct sbx_keeper_msg msg;
    int net_fd = -1;
    int r;

    while ((r = sbx_keeper_receive(&native->keeper, &msg, &net_fd)) == 0) {
        if (msg.op == SBX_KEEPER_MAKE)
            on_made(native, &msg, &net_fd);
        cr_close_fd(&net_fd);
    }
    for (uint32_t i = 0; i < native->base.slot_count; i++) {
        if (native->runs[i].job.state == SBX_JOB_STARTING)
            sbx_run_on_group(native, &native->runs[i]);
    }
    return r == -EAGAIN || r == -EINTR ? 0 : -EPIPE;
}

void sbx_groups_close(struct sbx_groups *groups)
{
    while (groups->ready_count > 0) {
        groups->ready_count--;
        sbx_cgroup_close(&groups->ready[groups->ready_count]);
        cr_close_fd(&groups->net_fds[groups->ready_count]);
    }
}
