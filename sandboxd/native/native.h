/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "sandboxd/backend/cgroup.h"
#include "sandboxd/backend/link.h"
#include "sandboxd/native/keeper.h"
#include "sandboxd/native/run.h"
#include "sandboxd/wire/msg.h"

#include <stdbool.h>
#include <stdint.h>

struct cr_err;

#define SBX_SLOTS_MAX 64U
#define SBX_GROUPS_SPARE 2U
#define SBX_GROUPS_MAX (SBX_SLOTS_MAX + SBX_GROUPS_SPARE)

/* The flags of the program, see main.c. */
struct sbx_native_settings {
    uint64_t slots; /* 0: by cores and memory */
    uint64_t uid_base;
    char *init_path;   /* NULL: beside our own binary */
    char *accept_gaps; /* comma-separated names of controls; NULL: none */
    bool is_check;     /* sbx_native_check() instead of serving */
    bool is_selftest;  /* allows `weaken` */
    char *weaken;      /* name of a control to leave out, see weaken.h; NULL: none */
    char *log_level;
    char *log_format;
    uint64_t maximum[SBX_LIMIT_COUNT]; /* 0: the built-in one */
};

/* Control groups made ahead. */
struct sbx_groups {
    struct sbx_cgroup ready[SBX_GROUPS_MAX];
    uint32_t ready_count;
    uint32_t next_number;
    uint32_t missing; /* could not be asked for or made; asked for again with the next */
};

/* Everything of the one process; one thread. */
struct sbx_native {
    int epoll_fd;
    struct sbx_link link; /* to the front */
    int lifeline_fd;
    int init_fd;
    int seccomp_fd;
    uint32_t uid_base;
    uint32_t slot_count;
    bool is_stopping;
    int64_t stop_deadline_ns;
    struct sbx_cgroup_host cgroups;
    struct sbx_keeper keeper;
    struct sbx_groups groups;
    uint8_t controls[SBX_CONTROL_COUNT];
    uint32_t weakened; /* enum sbx_control, or SBX_WEAKEN_NOTHING */
    struct sbx_run runs[SBX_SLOTS_MAX];
};

/* start.c */

/* Nothing open yet; sbx_native_stop() is right from here on. */
void sbx_native_init(const struct sbx_native_settings *settings, struct sbx_native *native);

/* Checks the host and prepares everything up to the HELLO. The error says what is missing and the
 * fix. */
int sbx_native_start(const struct sbx_native_settings *settings, struct sbx_native *native,
                     struct cr_err *err);

/* Cleans up after sbx_native_loop() or a failed start. */
void sbx_native_stop(struct sbx_native *native);

/* check.c */

/*
 * Tries everything that sbx_native_start() needs of the host, and the
 * runtimes, and prints a line for each on stdout. Needs no descriptors.
 * Returns 0 when a start would work, 1 when not.
 */
int sbx_native_check(const struct sbx_native_settings *settings, struct sbx_native *native);

/* loop.c */

/* Serves until the front or the supervisor is gone and every run has ended. */
int sbx_native_loop(struct sbx_native *native, struct cr_err *err);

enum sbx_watch_kind {
    SBX_WATCH_FRONT,
    SBX_WATCH_LIFELINE,
    SBX_WATCH_KEEPER,
    SBX_WATCH_CONTROL,
    SBX_WATCH_DEAD,
    SBX_WATCH_OOM,
    SBX_WATCH_COLLECTOR,
};

/* Watches `fd` for `events`; `run` is NULL for the first three kinds. Closing the fd ends it. */
int sbx_native_watch(struct sbx_native *native, int fd, uint32_t events, enum sbx_watch_kind kind,
                     const struct sbx_run *run);

/* What link.c calls for the front\'s messages; their user is the struct sbx_native. */
extern const struct sbx_link_ops sbx_native_link_ops;

/* Sends to the front; a front that does not take it is dropped. */
void sbx_native_send(struct sbx_native *native, const union sbx_msg *msg);

/* Kills every run and ends the loop when all are gone. Safe to repeat. */
void sbx_native_begin_stop(struct sbx_native *native, const char *why);

/* groups.c */

/* Asks the keeper for the first groups. */
int sbx_groups_start(struct sbx_native *native, struct cr_err *err);

/* Takes a group that is ready: 0, or -EAGAIN. */
int sbx_groups_take(struct sbx_native *native, struct sbx_cgroup *ret_group);

/* Gives a used group back, with the workspace to drop; consumes both. */
void sbx_groups_give_back(struct sbx_native *native, struct sbx_cgroup *group, int *workspace_fd);

/* The keeper answered. Returns 0, or -EPIPE when it is gone. */
int sbx_groups_on_keeper(struct sbx_native *native);

void sbx_groups_close(struct sbx_groups *groups);
