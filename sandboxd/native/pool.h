/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "sandboxd/backend/ahead.h"
#include "sandboxd/native/cell.h"

#include <stdbool.h>
#include <stdint.h>

struct cr_err;
struct sbx_job;
struct sbx_native;

#define SBX_POOL_MAX SBX_AHEAD_MAX
#define SBX_STARTERS_MAX 4U /* kinds of slots */

/*
 * A kind of slot: who starts its boxes, and which runs they may serve. A box
 * says WAITING on its control socket and takes LOAD there (wire/boxctl.h),
 * whoever started it; the pool does the rest.
 */
struct sbx_starter {
    const char *name;  /* as in --pool=NAME=N */
    uint32_t standard; /* slots when --pool does not name it */

    bool needs_templates; /* no slots of it without --preload=on */

    /* False: its boxes cannot be started now, and it says nothing about when. NULL: always. */
    bool (*is_ready)(const struct sbx_native *native);

    /*
     * Starts the box of a cell that is open and furnished, and returns at once. -EAGAIN: not now,
     * without a word; another -errno: something is wrong, it is logged. Then no process is left.
     * A box without a pidfd is there later: sbx_pool_on_started() tells.
     */
    int (*start)(struct sbx_native *native, struct sbx_cell *cell, struct cr_err *err);

    /* True when such a box and one made for this run cannot be told apart by the run's result.
     * The pool itself compares the workspace. */
    bool (*serves)(const struct sbx_native *native, const struct sbx_job *job);
};

/* sandbox-init itself, for every run. */
extern const struct sbx_starter sbx_starter_plain;

/* Forked from the templates of these names, for their runtimes: see templates.c. */
extern const struct sbx_starter sbx_starter_python;
extern const struct sbx_starter sbx_starter_pytest;
extern const struct sbx_starter sbx_starter_pytest_shallow;

enum sbx_pool_state {
    SBX_POOL_FREE,
    SBX_POOL_STARTING, /* its box is being made: waits for WAITING */
    SBX_POOL_IDLE,     /* waits for a run */
    SBX_POOL_DYING,    /* SIGKILL was sent, or it died: waits until it can be reaped */
    SBX_POOL_STATE_COUNT,
};

struct sbx_pool_slot {
    enum sbx_pool_state state;
    const struct sbx_starter *starter; /* of its kind; the same for ever */
    struct sbx_cell cell;
    bool has_waited;              /* it said WAITING before we knew its pidfd */
    int64_t idle_bytes;           /* of sbx_cell_measure() when it began to wait */
    struct sbx_cgroup_usage idle; /* what the counters said when it began to wait */
    int64_t deadline_ns;          /* of the state; INT64_MAX: none */
};

/* Boxes that wait for runs. A slot is filled again when no run is being prepared. */
struct sbx_pool {
    struct sbx_pool_slot slots[SBX_POOL_MAX];
    uint32_t slot_count;
    uint32_t starting_most; /* at one time: as many as there are cores */
    int64_t retry_ns;       /* nothing is started before; after a failure */
};

/* True when the table of the machine has that edge. Pure. */
bool sbx_pool_can_move(enum sbx_pool_state from, enum sbx_pool_state to);

/*
 * `text` is what --pool says: NAME=N, comma-separated; "0" is none of any
 * kind; NULL is the standard. Starts nothing yet.
 */
int sbx_pool_init(struct sbx_pool *pool, const char *text, bool has_templates, struct cr_err *err);

/*
 * Finds a waiting box for the job, gives it the job's limits and LOAD, and
 * hands its cell over. Returns true; false when there is none, and nothing
 * has happened to the job.
 */
bool sbx_pool_take(struct sbx_native *native, struct sbx_job *job, struct sbx_cell *ret_cell,
                   int64_t *ret_idle_bytes);

/*
 * The answer about a box that was not there at once. `box` has its pid and
 * pidfd (taken), or is NULL: there will be none.
 */
void sbx_pool_on_started(struct sbx_native *native, struct sbx_pool_slot *slot,
                         const struct sbx_box *box);

/* Ends the boxes that wait and were forked from this template, an index of templates.h: their
 * interpreters have loaded what is not installed any more. */
void sbx_pool_drop_forked(struct sbx_native *native, int index);

/* Events of the slot's control socket and of the end of its box. */
void sbx_pool_on_control(struct sbx_native *native, uint32_t index);
void sbx_pool_on_dead(struct sbx_native *native, uint32_t index);

/* Fills, recycles what waits for too long, kills all while the backend stops. */
void sbx_pool_on_time(struct sbx_native *native, int64_t now_ns);
int64_t sbx_pool_next_ns(const struct sbx_native *native);

/* No box is left. */
bool sbx_pool_is_empty(const struct sbx_pool *pool);
