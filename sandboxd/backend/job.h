/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "sandboxd/backend/cgroup.h"
#include "sandboxd/backend/verdict.h"
#include "sandboxd/wire/msg.h"

#include <stdbool.h>
#include <stdint.h>

#include <sys/types.h>

struct sbx_backend;

/*
 * One run, from RUN to RESULT, as a state machine: the only arbiter of what
 * happens to a program, and the same for every backend. How a box is made,
 * killed and taken away is the backend's own: struct sbx_backend_ops.
 */
enum sbx_job_state {
    SBX_JOB_FREE,
    SBX_JOB_STARTING,  /* the backend makes the box: nobody to talk to yet */
    SBX_JOB_PREPARING, /* the files go in: waits for READY of sandbox-init */
    SBX_JOB_RUNNING,   /* READY came and GO was sent: the clock runs */
    SBX_JOB_KILLING,   /* SIGKILL was sent: waits for the box to be dead */
    SBX_JOB_DRAINING,  /* EXITED was sent: waits for DRAINED and the collector */
    SBX_JOB_STATE_COUNT,
};

/*
 * Lives in a slot, as the first member of what the backend keeps for it;
 * everything it owns is released when it becomes FREE again.
 */
struct sbx_job {
    enum sbx_job_state state;
    uint32_t slot;       /* index */
    uint32_t generation; /* counts uses, so that a late event of an earlier run is known as such */
    uint64_t id;         /* the front's number */
    uint32_t runtime;    /* index into the runtime table */
    uint32_t flags;      /* of RUN */
    uint64_t caller;     /* likewise */
    uint64_t session;    /* likewise; 0: none */
    uint16_t columns;    /* likewise: of its terminal */
    uint16_t rows;
    bool is_session_over; /* it ends with this run */
    bool is_parked;       /* its box was not killed: it waits for the next run of the session */
    bool is_new_state;    /* the interpreter was started for this run */
    bool is_pool_hit;     /* its box was made ahead */
    uint8_t start_mode;   /* enum sbx_start_mode */
    struct sbx_limits limits;
    int fds[SBX_RUN_FDS]; /* as in RUN; -1 once handed on or closed */
    int control_fd;       /* messages of boxctl.h; -1: none */
    struct sbx_cgroup group;
    bool has_group;
    pid_t collector_pid;
    int collector_pidfd;
    bool is_drained;
    bool is_told; /* RESULT was sent, and holds unless DRAINED says otherwise */
    bool is_lost; /* the box ended, and neither we, nor a limit, nor the program was it */
    int64_t received_ns;
    int64_t along_ns; /* when GO went along with LOAD; 0: it comes after READY */
    int64_t go_ns;    /* 0: it is not RUNNING yet */
    int64_t kill_ns;
    int64_t end_ns;  /* of the program: its exit or the kill */
    int64_t dead_ns; /* everything in the box is gone */
    int64_t collected_ns;
    int64_t deadline_ns;  /* of the state */
    int64_t poll_ns;      /* next look at the counters; INT64_MAX: none */
    int64_t age_ns;       /* next look whether it is old; INT64_MAX: it is, or nobody asks */
    int64_t age_wait_ns;  /* from the last look to that one */
    int64_t oom_until_ns; /* the kernel announced an OOM kill: look often until then */
    int64_t oom_poll_ns;
    struct sbx_cgroup_usage baseline; /* at GO, or before LOAD when GO goes along with it */
    uint32_t leftovers;
    bool has_no_socket; /* nothing of it is left in its network namespace */
    struct sbx_facts facts;
};

/* CPU time that a program has as a young one, see on_old of struct sbx_backend_ops. */
#define SBX_JOB_YOUNG_CPU_US 20000U

/* True when the table of the machine has that edge. Pure. */
bool sbx_job_can_move(enum sbx_job_state from, enum sbx_job_state to);
const char *sbx_job_state_name(enum sbx_job_state state);

/* Sets the fds to -1; once per slot. */
void sbx_job_init(struct sbx_job *job, uint32_t slot);

/* Takes the fds of a RUN that was admitted to this free slot, and starts its box. */
void sbx_job_begin(struct sbx_backend *backend, struct sbx_job *job, const struct sbx_msg_run *msg,
                   const int fds[SBX_RUN_FDS]);

/* ---- for the backend: what its box is doing ---- */

/* STARTING ▶ PREPARING: sandbox-init is there and will say READY on control_fd. */
void sbx_job_prepare(struct sbx_job *job);

/*
 * Right before LOAD_GO is sent: the wall time counts from here, and `baseline`
 * is what the counters said when the box had nothing to do.
 */
void sbx_job_go_along(struct sbx_job *job, const struct sbx_cgroup_usage *baseline);

/*
 * PREPARING ▶ RUNNING: LOAD_GO was sent to a sandbox-init that says no READY
 * then; until its end it has nothing to say but failures.
 */
void sbx_job_run_along(struct sbx_backend *backend, struct sbx_job *job);

/* Watches control_fd and the group's OOM events. Returns 0 or -errno. */
int sbx_job_watch(struct sbx_backend *backend, const struct sbx_job *job);

/* SIGKILL for all of the box. What made us do it is already in the facts. */
void sbx_job_kill(struct sbx_backend *backend, struct sbx_job *job, int64_t now_ns);

/*
 * True when nothing speaks against another run in the box of this one: it waits, no limit was
 * passed, and its session goes on.
 */
bool sbx_job_keeps_box(const struct sbx_job *job);

/* The session of a run is at its end: a run that is on ends as SANDBOX_LOST. */
void sbx_job_lose(struct sbx_backend *backend, struct sbx_job *job);

/* The same, because of a fault in building or running the box. */
void sbx_job_fail(struct sbx_backend *backend, struct sbx_job *job, enum sbx_stage stage,
                  int error);

/* A start that failed, with no box to kill: ends the run. Nobody was told STARTED. */
void sbx_job_fail_start(struct sbx_backend *backend, struct sbx_job *job, enum sbx_stage stage,
                        int error);

/*
 * As recv(2), without waiting, on the control socket. Who ended with a message
 * of ours unread has the kernel say ECONNRESET once, before what it had said
 * itself: that is no end, and not told.
 */
ssize_t sbx_job_receive(const struct sbx_job *job, void *ret_data, size_t size, int flags);

/* What sandbox-init said before its end, which came in the same round of events. */
void sbx_job_read_last_words(struct sbx_backend *backend, struct sbx_job *job);

/* Notes an OOM kill among the facts. */
void sbx_job_check_memory(struct sbx_job *job);

/* Reads the counters, as deltas since GO, into the facts. Returns 0 or -errno. */
int sbx_job_read_counters(struct sbx_job *job, struct cr_err *err);

/* Everything in the box is dead. A run that was started goes on to DRAINING, others end. */
void sbx_job_on_empty(struct sbx_backend *backend, struct sbx_job *job);

/* Sends RESULT and frees the slot. */
void sbx_job_finish(struct sbx_backend *backend, struct sbx_job *job);

/* ---- for the loop ---- */

/* Something happened. Each may end the run. */
void sbx_job_on_control(struct sbx_backend *backend, struct sbx_job *job);
void sbx_job_on_oom(struct sbx_backend *backend, struct sbx_job *job);
void sbx_job_on_collector(struct sbx_backend *backend, struct sbx_job *job);
void sbx_job_on_time(struct sbx_backend *backend, struct sbx_job *job, int64_t now_ns);

/* Messages of the front. sbx_job_on_drained() returns -EPROTO in a state that does not allow it. */
void sbx_job_on_cancel(struct sbx_backend *backend, struct sbx_job *job);
void sbx_job_on_output_limit(struct sbx_backend *backend, struct sbx_job *job,
                             const struct sbx_msg_output_limit *msg);
void sbx_job_on_signal(const struct sbx_backend *backend, const struct sbx_job *job,
                       uint32_t number);
void sbx_job_on_resize(const struct sbx_backend *backend, const struct sbx_job *job,
                       uint32_t columns, uint32_t rows);
int sbx_job_on_drained(struct sbx_backend *backend, struct sbx_job *job,
                       const struct sbx_msg_drained *msg);

/* Ends it without an answer: the front or the supervisor is gone. */
void sbx_job_abandon(struct sbx_backend *backend, struct sbx_job *job);

/* When sbx_job_on_time() wants to be called; INT64_MAX: never. */
int64_t sbx_job_next_ns(const struct sbx_job *job);
