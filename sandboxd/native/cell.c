/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/native/cell.h"

#include "common/auto.h"
#include "common/err.h"
#include "common/log.h"
#include "sandboxd/backend/userns.h"
#include "sandboxd/backend/weaken.h"
#include "sandboxd/native/native.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include <sys/resource.h>

/* Below that an interpreter would hardly start: it may as well do so from nothing. */
#define SHARED_MARGIN_BYTES (UINT64_C(1) << 20)
#define WEAK_FACTOR 16 /* of a workspace whose limits are left out: see weaken.h */

int sbx_place_take(struct sbx_native *native)
{
    for (uint32_t i = 0; i < native->place_count; i++) {
        if (native->places[i].users > 0)
            continue;
        native->places[i].users = 1;
        return (int)i;
    }
    return -EAGAIN;
}

/* From the last on: containers of the same user begin with the first. */
uint32_t sbx_place_rootless_id(const struct sbx_native *native, uint32_t place)
{
    return native->own_ids + 1 - (place + 1) * SBX_PLACE_ROOTLESS_IDS;
}

void sbx_place_drop(struct sbx_native *native, uint32_t place)
{
    assert(native->places[place].users > 0);
    native->places[place].users--;
}

int sbx_cell_open(struct sbx_native *native, bool with_shell, struct sbx_cell *ret_cell)
{
    struct sbx_cell cell = SBX_CELL_INIT;
    int place = sbx_place_take(native);

    if (place < 0)
        return place;
    if (sbx_groups_take(native, with_shell, &cell) < 0) {
        sbx_place_drop(native, (uint32_t)place);
        return -EAGAIN;
    }
    cell.place = (uint32_t)place;
    *ret_cell = cell;
    return 0;
}

static struct sbx_limits with_extra(const struct sbx_limits *limits, int64_t extra_bytes)
{
    struct sbx_limits raised = *limits;

    raised.value[SBX_LIMIT_MEMORY] += (uint64_t)extra_bytes;
    return raised;
}

enum sbx_stage sbx_cell_furnish(struct sbx_native *native, struct sbx_cell *cell,
                                const struct sbx_limits *limits, int64_t extra_bytes,
                                struct cr_err *err)
{
    uint64_t weak = sbx_is_weakened(&native->base, SBX_CONTROL_TMPFS) ? WEAK_FACTOR : 1;

    cell->limits = with_extra(limits, extra_bytes);
    if (sbx_cgroup_limit(&cell->group, &cell->limits, err) < 0)
        return SBX_STAGE_CGROUP;
    if (cell->workspace_fd < 0 &&
        sbx_workspace_make(limits->value[SBX_LIMIT_WORKSPACE_BYTES] * weak,
                           limits->value[SBX_LIMIT_WORKSPACE_INODES] * weak,
                           sbx_cell_owner(native, cell), &cell->workspace_fd, err) < 0)
        return SBX_STAGE_MOUNT;
    return SBX_STAGE_NONE;
}

int sbx_cell_start(struct sbx_native *native, struct sbx_cell *cell, enum sbx_box_mode mode,
                   const int *fds, struct cr_err *err)
{
    /* A box of the pool has the most that anybody may ask for: only that can be lowered later. */
    const struct sbx_limits *limits =
        mode == SBX_BOX_AHEAD ? &native->base.link.maximum : &cell->limits;
    struct sbx_box_plan plan = {
        .limits = limits,
        .userns_fd = native->places[cell->place].userns_fd,
        .workspace_fd = cell->workspace_fd,
        .root_fd = cell->root_fd,
        .payload_fd = fds ? fds[0] : -1,
        .stdio_fds = {fds ? fds[1] : -1, fds ? fds[2] : -1, fds ? fds[3] : -1},
        .mode = mode,
        .is_watched = native->base.cgroups.ops->look_ns > 0,
        .has_one_id = native->is_rootless && native->own_ids == 0,
        .columns = cell->columns,
        .rows = cell->rows,
    };
    int r = 0;

    if (cell->box.pidfd < 0)
        r = sbx_groups_begin_box(native, &cell->group, cell->net_fd, &cell->box, err);
    return r < 0 ? r : sbx_box_finish(&cell->box, &plan, err);
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
                         int64_t extra_bytes, struct cr_err *err)
{
    static const enum sbx_limit of_group[] = {SBX_LIMIT_MEMORY, SBX_LIMIT_PROCESSES};
    struct sbx_limits wanted = with_extra(limits, extra_bytes);
    bool is_same = true;

    for (size_t i = 0; i < CR_ARRAY_SIZE(of_group); i++)
        is_same = is_same && wanted.value[of_group[i]] == cell->limits.value[of_group[i]];
    cell->limits = wanted;
    return is_same ? 0 : sbx_cgroup_limit(&cell->group, &wanted, err);
}

int sbx_cell_limit_cpu(struct sbx_cell *cell, const struct sbx_limits *limits, struct cr_err *err)
{
    uint64_t wanted = limits->value[SBX_LIMIT_CPU_MILLICORES];
    int r = wanted == cell->millicores ? 0 : sbx_cgroup_limit_cpu(&cell->group, limits, err);

    if (r == 0)
        cell->millicores = wanted;
    return r;
}

int sbx_cell_measure(const struct sbx_cell *cell, int64_t *ret_extra_bytes, struct cr_err *err)
{
    uint64_t charged = 0;
    int r = sbx_cgroup_memory_bytes(&cell->group, &charged);

    if (r < 0)
        return cr_err_sys(err, -r, "read the memory of a box");
    *ret_extra_bytes = (int64_t)charged - (int64_t)cell->shared_bytes;
    return 0;
}

bool sbx_cell_allows(const struct sbx_limits *limits, uint64_t shared_bytes)
{
    return shared_bytes == 0 ||
           limits->value[SBX_LIMIT_MEMORY] >= shared_bytes + SHARED_MARGIN_BYTES;
}

bool sbx_cell_fits(const struct sbx_cell *cell, const struct sbx_limits *limits)
{
    return sbx_cell_allows(limits, cell->shared_bytes) &&
           cell->limits.value[SBX_LIMIT_WORKSPACE_BYTES] ==
               limits->value[SBX_LIMIT_WORKSPACE_BYTES] &&
           cell->limits.value[SBX_LIMIT_WORKSPACE_INODES] ==
               limits->value[SBX_LIMIT_WORKSPACE_INODES];
}

uid_t sbx_cell_owner(const struct sbx_native *native, const struct sbx_cell *cell)
{
    if (native->is_rootless)
        return native->own_ids > 0 ? sbx_place_rootless_id(native, cell->place) + 1
                                   : 0; /* the only one there is */
    return native->uid_base + cell->place * SBX_USERNS_RANGE + SBX_USERNS_PROGRAM_ID;
}

int sbx_cell_freeze(struct sbx_cell *cell, bool is_frozen)
{
    int r;

    if (cell->is_frozen == is_frozen || !sbx_cgroup_can_freeze(cell->group.host))
        return 0;
    r = sbx_cgroup_freeze(&cell->group, is_frozen);
    if (r == 0)
        cell->is_frozen = is_frozen;
    else
        cr_log_warn("a control group is not %s error=%s", is_frozen ? "frozen" : "let go on",
                    strerrordesc_np(-r));
    return r;
}

void sbx_cell_kill(struct sbx_cell *cell)
{
    (void)sbx_cgroup_kill(&cell->group);
    sbx_box_kill(&cell->box);
    sbx_cgroup_hurry(&cell->group);
    cell->millicores = 0;
    (void)sbx_cell_freeze(cell, false); /* or it would not hear of it, see sbx_cgroup_freeze() */
}

void sbx_cell_close(struct sbx_native *native, struct sbx_cell *cell)
{
    if (cell->place == SBX_NO_PLACE)
        return;
    sbx_place_drop(native, cell->place);
    /* A box of a template has a network that the template made. */
    if (!cell->is_net_clean && cell->asked_of < 0)
        cr_close_fd(&cell->net_fd);
    sbx_groups_give_back(native, &cell->group, &cell->net_fd, &cell->workspace_fd);
    *cell = (struct sbx_cell)SBX_CELL_INIT;
}
