/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/native/cell.h"

#include "common/auto.h"
#include "common/err.h"
#include "sandboxd/backend/userns.h"
#include "sandboxd/backend/weaken.h"
#include "sandboxd/native/native.h"

#include <errno.h>

#include <sys/resource.h>

#define WEAK_FACTOR 16 /* of a workspace whose limits are left out: see weaken.h */

int sbx_cell_open(struct sbx_native *native, struct sbx_cell *ret_cell)
{
    struct sbx_cell cell = SBX_CELL_INIT;
    uint32_t place = 0;

    while (place < native->place_count && native->places[place].is_taken)
        place++;
    if (place == native->place_count)
        return -EAGAIN;
    if (sbx_groups_take(native, &cell.group, &cell.net_fd) < 0)
        return -EAGAIN;
    native->places[place].is_taken = true;
    cell.place = place;
    *ret_cell = cell;
    return 0;
}

static struct sbx_limits with_extra(const struct sbx_limits *limits, uint64_t extra_bytes)
{
    struct sbx_limits raised = *limits;

    raised.value[SBX_LIMIT_MEMORY] += extra_bytes;
    return raised;
}

enum sbx_stage sbx_cell_furnish(struct sbx_native *native, struct sbx_cell *cell,
                                const struct sbx_limits *limits, uint64_t extra_bytes,
                                struct cr_err *err)
{
    uint64_t weak = sbx_is_weakened(&native->base, SBX_CONTROL_TMPFS) ? WEAK_FACTOR : 1;

    cell->limits = with_extra(limits, extra_bytes);
    if (sbx_cgroup_limit(&cell->group, &cell->limits, err) < 0 ||
        sbx_cgroup_arm(&cell->group, err) < 0)
        return SBX_STAGE_CGROUP;
    if (sbx_workspace_make(limits->value[SBX_LIMIT_WORKSPACE_BYTES] * weak,
                           limits->value[SBX_LIMIT_WORKSPACE_INODES] * weak,
                           sbx_cell_owner(native, cell), &cell->workspace_fd, err) < 0)
        return SBX_STAGE_MOUNT;
    return SBX_STAGE_NONE;
}

int sbx_cell_start(struct sbx_native *native, struct sbx_cell *cell, const int *fds,
                   struct cr_err *err)
{
    int null_fd = native->null_fd;
    /* A box that waits has the most that anybody may ask for: only that can be lowered later. */
    const struct sbx_limits *limits = fds ? &cell->limits : &native->base.link.maximum;
    struct sbx_box_plan plan = {
        .group = &cell->group,
        .limits = limits,
        .init_fd = native->init_fd,
        .seccomp_fd = native->seccomp_fd,
        .userns_fd = native->places[cell->place].userns_fd,
        .net_fd = cell->net_fd,
        .workspace_fd = cell->workspace_fd,
        .payload_fd = fds ? fds[0] : null_fd,
        .stdio_fds = {fds ? fds[1] : null_fd, fds ? fds[2] : null_fd, fds ? fds[3] : null_fd},
        .weakened = native->base.weakened,
        .is_ahead = !fds,
    };
    int r = sbx_box_start(&plan, &cell->box, err);

    cr_close_fd(&cell->net_fd);
    return r;
}

/* Soft and hard limit. */
static int lower(pid_t pid, int resource, uint64_t value, struct cr_err *err)
{
    struct rlimit limit = {.rlim_cur = value, .rlim_max = value};

    if (prlimit(pid, (__rlimit_resource_t)resource, &limit, NULL) < 0)
        return cr_err_sys(err, errno, "set resource limit %d of a box", resource);
    return 0;
}

int sbx_cell_limit_program(const struct sbx_native *native, const struct sbx_cell *cell,
                           const struct sbx_limits *limits, struct cr_err *err)
{
    static const struct {
        int resource;
        enum sbx_limit limit;
    } rows[] = {
        {RLIMIT_STACK, SBX_LIMIT_STACK},
        {RLIMIT_FSIZE, SBX_LIMIT_FILE_SIZE},
        {RLIMIT_NOFILE, SBX_LIMIT_OPEN_FILES},
    };

    int r = 0;

    if (sbx_is_weakened(&native->base, SBX_CONTROL_RLIMITS))
        return 0;
    for (size_t i = 0; r == 0 && i < CR_ARRAY_SIZE(rows); i++)
        r = lower(cell->box.pid, rows[i].resource, limits->value[rows[i].limit], err);
    return r;
}

int sbx_cell_limit_group(struct sbx_cell *cell, const struct sbx_limits *limits,
                         uint64_t extra_bytes, struct cr_err *err)
{
    static const enum sbx_limit of_group[] = {SBX_LIMIT_MEMORY, SBX_LIMIT_CPU_MILLICORES,
                                              SBX_LIMIT_PROCESSES};
    struct sbx_limits wanted = with_extra(limits, extra_bytes);
    bool is_same = true;

    for (size_t i = 0; i < CR_ARRAY_SIZE(of_group); i++)
        is_same = is_same && wanted.value[of_group[i]] == cell->limits.value[of_group[i]];
    cell->limits = wanted;
    return is_same ? 0 : sbx_cgroup_limit(&cell->group, &wanted, err);
}

bool sbx_cell_fits(const struct sbx_cell *cell, const struct sbx_limits *limits)
{
    return cell->limits.value[SBX_LIMIT_WORKSPACE_BYTES] ==
               limits->value[SBX_LIMIT_WORKSPACE_BYTES] &&
           cell->limits.value[SBX_LIMIT_WORKSPACE_INODES] ==
               limits->value[SBX_LIMIT_WORKSPACE_INODES];
}

uid_t sbx_cell_owner(const struct sbx_native *native, const struct sbx_cell *cell)
{
    return native->uid_base + cell->place * SBX_USERNS_RANGE + SBX_USERNS_PROGRAM_ID;
}

void sbx_cell_close(struct sbx_native *native, struct sbx_cell *cell)
{
    if (cell->place == SBX_NO_PLACE)
        return;
    native->places[cell->place].is_taken = false;
    cr_close_fd(&cell->net_fd);
    sbx_groups_give_back(native, &cell->group, &cell->workspace_fd);
    *cell = (struct sbx_cell)SBX_CELL_INIT;
}
