/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "sandboxd/backend/backend.h"
#include "sandboxd/backend/capacity.h"
#include "sandboxd/backend/cgroup.h"
#include "sandboxd/backend/userns.h"
#include "sandboxd/backend/weaken.h"
#include "sandboxd/native/keeper.h"
#include "sandboxd/native/pool.h"
#include "sandboxd/native/roots.h"
#include "sandboxd/native/run.h"
#include "sandboxd/native/session.h"
#include "sandboxd/native/spawner.h"
#include "sandboxd/native/templates.h"
#include "sandboxd/native/vault.h"
#include "sandboxd/wire/msg.h"

#include <stdbool.h>
#include <stdint.h>

struct cr_err;

#define SBX_PLACES_MAX (SBX_SLOTS_MAX + SBX_POOL_MAX + SBX_SESSIONS_MAX + SBX_USERNS_SPARE)
#define SBX_GROUPS_SPARE 2U
#define SBX_GROUPS_MAX (SBX_PLACES_MAX + SBX_GROUPS_SPARE)

/* The flags of the program, see main.c. */
struct sbx_native_settings {
    uint64_t slots; /* 0: by cores and memory */
    uint64_t uid_base;
    uint64_t sessions;        /* that may live at one time */
    uint64_t session_life_ms; /* the longest that one may live */
    char *init_path;          /* NULL: beside our own binary */
    char *rootfs;      /* folder of the boxes' root file system; NULL or empty: the host's /usr */
    char *roots;       /* folder where root file systems of runtimes are registered; NULL: none */
    char *accept_gaps; /* comma-separated names of controls; NULL: none */
    char *pool;        /* as for sbx_pool_init() */
    bool is_rootless;  /* as root of a user namespace with one id, see supervisor/rootless.h */
    bool is_check;     /* sbx_native_check() instead of serving */
    bool is_check_config; /* these settings alone */
    bool with_runtimes;   /* the operator's, on a descriptor of the supervisor */
    char *preload;        /* on or off: templates */
    struct sbx_weaken_settings weaken;
    uint64_t slow_host; /* see common/patience.h */
    char *log_level;
    char *log_format;
    uint64_t maximum[SBX_LIMIT_COUNT]; /* 0: the built-in one */
};

/*
 * A control group made ahead, with a network namespace; some also with the
 * first half of a box. To enter the group takes it an RCU grace period of the
 * kernel on control groups v1, which no run should have to wait for.
 */
struct sbx_ready_group {
    struct sbx_cgroup group;
    int net_fd; /* -1: the box makes its own */
    struct sbx_box shell;
};

struct sbx_groups {
    struct sbx_ready_group ready[SBX_GROUPS_MAX]; /* the oldest first */
    uint32_t ready_count;
    uint32_t shell_count; /* of them, those with one */
    uint32_t shells_most;
    uint32_t next_number;
    uint32_t missing; /* could not be asked for or made; asked for again with the next */
    int spare_nets[SBX_GROUPS_MAX]; /* network namespaces that no socket was ever made in */
    uint32_t spare_net_count;
    uint32_t netless; /* groups that were asked for without one, for one of the spare ones */
    bool has_news;    /* some became ready: runs may be waiting for them */
};

/* Cells whose run has been answered: their boxes are on their way out. */
struct sbx_ending {
    struct sbx_cell cells[SBX_GROUPS_MAX];
    uint32_t count;
};

/*
 * Host ids with the user namespace that maps them: for one box at a time, or for a session and
 * all of its boxes.
 */
struct sbx_place {
    int userns_fd;
    uint32_t users; /* cells and sessions that have it; 0: nobody */
};

/* Everything of the one process; one thread. */
struct sbx_native {
    struct sbx_backend base; /* first, so that one is found from the other */
    struct sbx_capacity capacity;
    int init_fd;
    int seccomp_fd;
    uint32_t uid_base;
    bool is_rootless;
    uint32_t own_ids; /* rootless: ids of our user namespace beside 0; 0: boxes share that one */
    uint32_t place_count; /* one for each run and each slot of the pool, and some to spare */
    struct sbx_place places[SBX_PLACES_MAX];
    uint64_t box_bytes; /* memory that a box without a program is charged for */
    struct sbx_keeper keeper;
    struct sbx_spawner spawner;
    struct sbx_groups groups;
    struct sbx_pool pool;
    struct sbx_ending ending;
    struct sbx_native_session sessions[SBX_SESSIONS_MAX];
    struct sbx_vault vault;
    struct sbx_templates templates;
    struct sbx_roots roots;
    struct sbx_run runs[SBX_SLOTS_MAX];
};

static inline struct sbx_native *sbx_native_of(struct sbx_backend *backend)
{
    return (struct sbx_native *)backend;
}

/* start.c */

/* Nothing open yet; sbx_native_stop() is right from here on. */
void sbx_native_init(const struct sbx_native_settings *settings, struct sbx_native *native);

/* The boxes that are to wait, by the settings alone. */
int sbx_native_size_pool(const struct sbx_native_settings *settings, struct sbx_pool *ret_pool,
                         struct cr_err *err);

/* Checks the host and prepares everything up to the HELLO. The error says what is missing and the
 * fix. */
int sbx_native_start(const struct sbx_native_settings *settings, struct sbx_native *native,
                     struct cr_err *err);

/* Cleans up after sbx_backend_loop() or a failed start. */
void sbx_native_stop(struct sbx_native *native);

/* check.c */

/*
 * Tries everything that sbx_native_start() needs of the host, and the
 * runtimes, and prints a line for each on stdout. Needs no descriptors.
 * Returns 0 when a start would work, 1 when not.
 */
int sbx_native_check(const struct sbx_native_settings *settings, struct sbx_native *native);

/* events.c */

/* The kinds of events that are its own; only DEAD has a job. */
enum sbx_native_watch_kind {
    SBX_NATIVE_WATCH_KEEPER = SBX_WATCH_OWN,
    SBX_NATIVE_WATCH_SPAWNER,
    SBX_NATIVE_WATCH_DEAD,
    SBX_NATIVE_WATCH_ENDED,        /* one of those that end */
    SBX_NATIVE_WATCH_SESSION,      /* an interpreter that waits has died */
    SBX_NATIVE_WATCH_POOL_CONTROL, /* and the index of the slot */
    SBX_NATIVE_WATCH_POOL_DEAD = SBX_NATIVE_WATCH_POOL_CONTROL + SBX_POOL_MAX, /* likewise */
    SBX_NATIVE_WATCH_TEMPLATE = SBX_NATIVE_WATCH_POOL_DEAD + SBX_POOL_MAX,     /* and its index */
};

extern const struct sbx_backend_ops sbx_native_ops;

/* ending.c */

/* Takes over the cell of a run that is answered, whose box was killed or ends by itself. */
void sbx_ending_add(struct sbx_native *native, struct sbx_cell *cell);

/* Closes a cell, at once or, when a part of a box is in it, when that has been killed. */
void sbx_ending_close(struct sbx_native *native, struct sbx_cell *cell);

/* The end of one of them: gives back what is its. */
void sbx_ending_on_event(struct sbx_native *native);

/* groups.c */

/* Asks the keeper for the first groups. */
int sbx_groups_start(struct sbx_native *native, struct cr_err *err);

/*
 * Moves a group and a network that are ready into the cell: 0, or -EAGAIN.
 * `with_shell` prefers one with the first half of a box, else it has none.
 */
int sbx_groups_take(struct sbx_native *native, bool with_shell, struct sbx_cell *cell);

/* Starts what boxes are forked from, when all that goes into it is there. */
int sbx_groups_start_spawner(struct sbx_native *native, struct cr_err *err);

/* Its end is an event from here on. */
int sbx_groups_watch_spawner(struct sbx_native *native, struct cr_err *err);

/* Safe to repeat; boxes that are there go on. */
void sbx_groups_stop_spawner(struct sbx_native *native);

/*
 * The first half of a box; `net_fd` is borrowed. Starts another spawner where
 * that is gone. Returns 0 or -errno.
 */
int sbx_groups_begin_box(struct sbx_native *native, const struct sbx_cgroup *group, int net_fd,
                         struct sbx_box *ret_box, struct cr_err *err);

/*
 * Gives a used group back, with the workspace to drop and a network namespace
 * that is as good as new (-1: none); consumes all. A group that is as good as
 * new itself is ready at once, with that network.
 */
void sbx_groups_give_back(struct sbx_native *native, struct sbx_cgroup *group, int *net_fd,
                          int *workspace_fd);

/* Begins boxes for groups that are ready, up to as many as are to wait. */
void sbx_groups_begin_boxes(struct sbx_native *native);

/* The keeper answered. Returns 0, or -EPIPE when it is gone. */
int sbx_groups_on_keeper(struct sbx_native *native);

/* At the end of a round of events: what has become ready goes to runs that wait. */
void sbx_groups_on_time(struct sbx_native *native);

void sbx_groups_close(struct sbx_groups *groups);
