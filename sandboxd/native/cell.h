/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "sandboxd/backend/cgroup.h"
#include "sandboxd/native/box.h"
#include "sandboxd/wire/msg.h"

#include <stdbool.h>
#include <stdint.h>

#include <sys/types.h>

struct cr_err;
struct sbx_native;

#define SBX_NO_PLACE UINT32_MAX

/*
 * A box with everything that stands around it, made for one run or ahead of
 * it, used once. Passes from the pool to the run by plain assignment: whoever
 * has it last gives it back.
 */
struct sbx_cell {
    uint32_t place; /* fixes the host ids: two boxes at one time never share one */
    struct sbx_cgroup group;
    int net_fd;        /* its network namespace; -1: none, or the box made its own */
    bool is_net_clean; /* no socket was ever made in it */
    int workspace_fd;
    int root_fd; /* borrowed: mount namespace of its runtime's own root; -1: the common one */
    struct sbx_limits limits; /* what it was made with; cell.c says which of them can change */
    uint64_t millicores;      /* CPU share that its group has; 0: not limited yet */
    struct sbx_box box;
    bool is_frozen;   /* everybody in it, between two runs of a session */
    uint16_t columns; /* of the terminal that its program gets */
    uint16_t rows;
    uint64_t asked; /* number of the request to a template that is to fork its box; 0: none */
    int asked_of;   /* which template that is or was, see templates.h; -1: none */
    uint64_t shared_bytes; /* of that template: its program has them without being charged */
};

#define SBX_CELL_INIT                                                                              \
    {                                                                                              \
        .place = SBX_NO_PLACE, .net_fd = -1, .workspace_fd = -1, .root_fd = -1,                    \
        .box = SBX_BOX_INIT, .asked_of = -1                                                        \
    }

/* Takes a place that nobody has, for a session or a cell. Returns it or -EAGAIN. */
int sbx_place_take(struct sbx_native *native);

/* Ids that a place has without root, when there are more than one for all: sandbox-init's and the
 * program's. */
#define SBX_PLACE_ROOTLESS_IDS 2U

/* The first of them, in our own user namespace. */
uint32_t sbx_place_rootless_id(const struct sbx_native *native, uint32_t place);

/* One user of it less: it is free when that was the last. */
void sbx_place_drop(struct sbx_native *native, uint32_t place);

/*
 * Takes a place, and what the keeper has made ahead; `with_shell`: with the
 * first half of its box, if one is there. Returns 0, or -EAGAIN when one of
 * them is out: it comes back with another cell, or from the keeper.
 */
int sbx_cell_open(struct sbx_native *native, bool with_shell, struct sbx_cell *ret_cell);

/*
 * Sets the limits of the group and makes the workspace, unless there is one. `extra_bytes` of
 * memory are not the program's: what the box itself is charged for.
 * Returns the stage that failed, or SBX_STAGE_NONE.
 */
enum sbx_stage sbx_cell_furnish(struct sbx_native *native, struct sbx_cell *cell,
                                const struct sbx_limits *limits, int64_t extra_bytes,
                                struct cr_err *err);

/*
 * Starts the box of a furnished cell, or goes on with what it has of one: with `fds` (payload,
 * stdin, stdout, stderr; borrowed) for their run, with NULL where that is to come.
 * Returns 0 or -errno.
 */
int sbx_cell_start(struct sbx_native *native, struct sbx_cell *cell, enum sbx_box_mode mode,
                   const int *fds, struct cr_err *err);

/*
 * Makes memory (and `extra_bytes`, which may be less than none) and processes
 * of the group those of a run: written where they differ, and read back.
 * Returns 0 or -errno.
 */
int sbx_cell_limit_group(struct sbx_cell *cell, const struct sbx_limits *limits,
                         int64_t extra_bytes, struct cr_err *err);

/*
 * Of a box that waits: what its group is charged for and the program is not to
 * pay, less what the program has and the group is not charged for. An
 * interpreter that was executed for the run pays for all of its memory, so one
 * that was forked from a template must, too, or a verdict would depend on that.
 */
int sbx_cell_measure(const struct sbx_cell *cell, int64_t *ret_extra_bytes, struct cr_err *err);

/* True when a program with that memory limit can be forked from a template of that size. */
bool sbx_cell_allows(const struct sbx_limits *limits, uint64_t shared_bytes);

/* The same for its CPU share, which comes last: see sbx_cgroup_limit_cpu(). */
int sbx_cell_limit_cpu(struct sbx_cell *cell, const struct sbx_limits *limits, struct cr_err *err);

/*
 * Lowers files, file size and stack of the sandbox-init that waits, which the
 * program inherits: once, since nothing raises them again. Returns 0 or -errno.
 */
int sbx_cell_limit_program(const struct sbx_native *native, const struct sbx_cell *cell,
                           const struct sbx_limits *limits, struct cr_err *err);

/* True when the box can get such limits: workspace and shared memory cannot be changed. */
bool sbx_cell_fits(const struct sbx_cell *cell, const struct sbx_limits *limits);

/* On the host: whose the files of the program are. */
uid_t sbx_cell_owner(const struct sbx_native *native, const struct sbx_cell *cell);

/* Its box waits for the next run of a session, in which it has to stand still, or gets one. Returns
 * 0 or -errno. Where groups cannot be frozen this is 0: its processes are stopped, and can have
 * themselves woken. */
int sbx_cell_freeze(struct sbx_cell *cell, bool is_frozen);

/* Kills everybody in it. Its end is an event. Safe to repeat. */
void sbx_cell_kill(struct sbx_cell *cell);

/* Gives everything back; a box must be dead and reaped. Safe to repeat. */
void sbx_cell_close(struct sbx_native *native, struct sbx_cell *cell);
