/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "sandboxd/backend/cgroup.h"
#include "sandboxd/backend/verdict.h"
#include "sandboxd/native/box.h"
#include "sandboxd/wire/boxctl.h"
#include "sandboxd/wire/msg.h"

#include <stdbool.h>
#include <stdint.h>

#include <sys/types.h>

struct sbx_native;

/*
 * One run, from RUN to RESULT, as a state machine: the only arbiter of what
 * happens to a program. Lives in a slot of the backend; everything it owns is
 * released when it becomes FREE again.
 */
enum sbx_run_state {
    SBX_RUN_FREE,
    SBX_RUN_WAITING,   /* for a control group */
    SBX_RUN_PREPARING, /* the box is being built: waits for READY */
    SBX_RUN_RUNNING,   /* GO was written: the clock runs */
    SBX_RUN_KILLING,   /* SIGKILL was sent: waits for the box to be dead */
    SBX_RUN_DRAINING,  /* EXITED was sent: waits for DRAINED and the collector */
    SBX_RUN_STATE_COUNT,
};

struct sbx_run {
    enum sbx_run_state state;
    uint32_t slot;       /* index; fixes the user namespace and the host ids */
    uint32_t generation; /* counts uses, so that a late event of an earlier run is known as such */
    int userns_fd;       /* of the slot; outlives the run */
    uint64_t id;         /* the front's number */
    struct sbx_limits limits;
    int fds[SBX_RUN_FDS]; /* as in RUN; -1 once handed on or closed */
    struct sbx_cgroup group;
    bool has_group;
    int workspace_fd;
    struct sbx_box box;
    pid_t collector_pid;
    int collector_pidfd;
    bool is_drained;
    int64_t received_ns;
    int64_t go_ns; /* 0: GO was not written */
    int64_t kill_ns;
    int64_t end_ns;  /* of the program: its exit or the kill */
    int64_t dead_ns; /* everything in the box is gone */
    int64_t collected_ns;
    int64_t deadline_ns;  /* of the state */
    int64_t poll_ns;      /* next look at the counters; INT64_MAX: none */
    int64_t oom_until_ns; /* the kernel announced an OOM kill: look often until then */
    int64_t oom_poll_ns;
    struct sbx_cgroup_usage baseline; /* at GO */
    uint32_t leftovers;
    struct sbx_facts facts;
};

/* True when the table of the machine has that edge. Pure. */
bool sbx_run_can_move(enum sbx_run_state from, enum sbx_run_state to);
const char *sbx_run_state_name(enum sbx_run_state state);

/* Sets the fds to -1; once per slot. */
void sbx_run_init(struct sbx_run *run, uint32_t slot, int userns_fd);

/* Takes the fds of a RUN that was admitted to this free slot. */
void sbx_run_begin(struct sbx_native *native, struct sbx_run *run, const struct sbx_msg_run *msg,
                   const int fds[SBX_RUN_FDS]);

/* Something happened. Each may end the run. */
void sbx_run_on_group(struct sbx_native *native, struct sbx_run *run);
void sbx_run_on_control(struct sbx_native *native, struct sbx_run *run);
void sbx_run_on_dead(struct sbx_native *native, struct sbx_run *run);
void sbx_run_on_oom(struct sbx_native *native, struct sbx_run *run);
void sbx_run_on_collector(struct sbx_native *native, struct sbx_run *run);
void sbx_run_on_time(struct sbx_native *native, struct sbx_run *run, int64_t now_ns);

/* Messages of the front. sbx_run_on_drained() returns -EPROTO in a state that does not allow it. */
void sbx_run_on_cancel(struct sbx_native *native, struct sbx_run *run);
void sbx_run_on_output_limit(struct sbx_native *native, struct sbx_run *run,
                             const struct sbx_msg_output_limit *msg);
int sbx_run_on_drained(struct sbx_native *native, struct sbx_run *run,
                       const struct sbx_msg_drained *msg);

/* Ends it without an answer: the front or the supervisor is gone. */
void sbx_run_abandon(struct sbx_native *native, struct sbx_run *run);

/* When sbx_run_on_time() wants to be called; INT64_MAX: never. */
int64_t sbx_run_next_ns(const struct sbx_run *run);
