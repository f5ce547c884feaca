/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "sandboxd/backend/cgroup.h"
#include "sandboxd/backend/collector.h"
#include "sandboxd/backend/link.h"
#include "sandboxd/backend/session.h"
#include "sandboxd/wire/boxctl.h"
#include "sandboxd/wire/msg.h"

#include <stdbool.h>
#include <stdint.h>

#include <sys/types.h>

struct cr_err;
struct sbx_backend;
struct sbx_job;

#define SBX_SLOTS_MAX 64U

/*
 * What a backend is besides the machine of job.h: how it makes a box, ends it
 * and takes it away. Everything runs on the one thread of sbx_backend_loop().
 */
struct sbx_backend_ops {
    const char *stuck; /* what we say when a stop takes too long */

    /* Returns 0, or the errno that refuses a run before anything was made. NULL: 0. */
    int (*admit)(struct sbx_backend *backend, const struct sbx_msg_run *msg);

    /*
     * What a session has from its beginning: 0, or the errno for which there is none. And the end
     * of it, whoever wanted that; no run is in it. NULL: no sessions.
     */
    int (*make_session)(struct sbx_backend *backend, struct sbx_session *session);
    void (*drop_session)(struct sbx_backend *backend, struct sbx_session *session);
    /*
     * Looks at what it keeps frozen, see sbx_session_rest(). Ends it when somebody killed it, who
     * on control groups v1 is not heard before it goes on, and, with `is_late`, when it does not
     * stand still by now. True as long as it waits.
     */
    bool (*check_session)(struct sbx_backend *backend, struct sbx_session *session, bool is_late);
    /*
     * The program of a run in a session has not ended: everything in its box is stopped and waits
     * for the next run. Takes the control socket of the job back. Returns 0, or -errno when nobody
     * would hold it where it is, although this host can: then it is as if it had ended. NULL: no
     * sessions.
     */
    int (*park)(struct sbx_backend *backend, struct sbx_job *job);

    /*
     * The job is STARTING and has no deadline: makes the box, now or over
     * several events, and ends with sbx_job_prepare() or sbx_job_fail_start().
     */
    void (*start)(struct sbx_backend *backend, struct sbx_job *job);
    /* The deadline that `start` set has passed. */
    void (*on_start_time)(struct sbx_backend *backend, struct sbx_job *job);
    /* Nobody wants it any more (the facts say so): may end it at once, or when a step is over. */
    void (*on_start_cancelled)(struct sbx_backend *backend, struct sbx_job *job);

    /* A message that the machine of job.h does not know: true when it was one of the backend's, in
     * whatever state. NULL: none. */
    bool (*on_own_message)(struct sbx_backend *backend, struct sbx_job *job,
                           const struct sbx_init_msg *msg);

    /* The box is ready and waits for GO: what comes last. Returns 0 or -errno. NULL: nothing. */
    int (*before_go)(struct sbx_backend *backend, struct sbx_job *job, struct cr_err *err);

    /*
     * The program has had SBX_JOB_YOUNG_CPU_US: others with less to do may go first from now on.
     * Once. NULL: nothing.
     */
    void (*on_old)(struct sbx_backend *backend, struct sbx_job *job);

    /*
     * sandbox-init says that its program has ended and that everybody else is
     * dead: true when the kernel says so as well, and nothing more is to come
     * of the box. NULL: never, its end is waited for.
     */
    bool (*is_alone)(struct sbx_backend *backend, struct sbx_job *job);

    /* SIGKILL to everything in the box. */
    void (*kill)(struct sbx_backend *backend, struct sbx_job *job);
    /* It is not dead in time. */
    void (*on_kill_time)(struct sbx_backend *backend, struct sbx_job *job);

    /* It is dead: what the facts do not have yet of counters and workspace. */
    void (*measure)(struct sbx_backend *backend, struct sbx_job *job);
    /* Returns /workspace for the collector, which is the caller's, or -errno. */
    int (*open_folder)(struct sbx_backend *backend, struct sbx_job *job, uid_t *ret_owner);
    /*
     * A child of the backend that collects already, as sbx_collector_start() does and says with
     * its exit code: *ret_pid and *ret_pidfd are the job's then. False: it takes a collector of
     * its own. NULL: always.
     */
    bool (*take_collector)(struct sbx_backend *backend, struct sbx_job *job, pid_t *ret_pid,
                           int *ret_pidfd);
    /* Folders (borrowed) below which all that the box could write lies. Returns how many. */
    size_t (*get_places)(struct sbx_backend *backend, struct sbx_job *job,
                         int ret_fds[SBX_COLLECTOR_PLACES]);
    /* The slot becomes free: gives back what is the backend's own. */
    void (*release)(struct sbx_backend *backend, struct sbx_job *job);

    /* An event of the kinds from SBX_WATCH_OWN on; `job` as it was watched, and not FREE. */
    void (*on_event)(struct sbx_backend *backend, struct sbx_job *job, uint32_t kind);

    /* Clocks of its own, and whether it may end when all slots are free. NULL: none, yes. */
    int64_t (*next_ns)(struct sbx_backend *backend);
    void (*on_time)(struct sbx_backend *backend, int64_t now_ns);
    bool (*is_idle)(struct sbx_backend *backend);

    /* Brings backend->counts up to date, after each round. NULL: they are. */
    void (*count)(struct sbx_backend *backend);
};

/* What every backend has; the first member of its own struct. One thread. */
struct sbx_backend {
    const struct sbx_backend_ops *ops;
    int epoll_fd;
    struct sbx_link link; /* to the front */
    int lifeline_fd;      /* to the supervisor */
    int64_t turn_ns;      /* when it is told next that we turn */
    struct sbx_cgroup_host cgroups;
    uint8_t controls[SBX_CONTROL_COUNT];
    uint32_t weakened;     /* enum sbx_control, or SBX_WEAKEN_NOTHING: see weaken.h */
    uint64_t memory_bytes; /* that the memory limits of all runs together may reach; 0: any sum */
    bool is_inferring;     /* counters are what somebody told of them: results say so */
    uint32_t runtimes;     /* bits of the runtime table: those that can be run; 0 until asked */
    bool is_image_root;    /* boxes have a root file system that the operator named */
    struct sbx_sessions sessions;
    uint32_t features;                /* SBX_FEATURE_… */
    uint32_t pool_slots;              /* boxes that are to wait for runs; 0: no pool */
    uint32_t pool_ready;              /* of them, those that do */
    bool was_pool_full;               /* the front has been told so */
    uint64_t counts[SBX_COUNT_COUNT]; /* what the front is told for its metrics … */
    uint64_t told[SBX_COUNT_COUNT];   /* … and was told last … */
    int64_t told_ns;                  /* … and when */
    uint32_t slot_count;
    struct sbx_job *jobs[SBX_SLOTS_MAX]; /* borrowed: parts of the backend's own slots */
    bool is_stopping;
    int64_t stop_deadline_ns;
};

/* backend.c: the frame of a start */

/* Nothing open yet; sbx_backend_close() is right from here on. */
void sbx_backend_init(struct sbx_backend *backend, const struct sbx_backend_ops *ops);

/* Takes the sockets that the supervisor handed to `program`, and the operator's runtimes when there
 * are some, and blocks the signals. */
int sbx_backend_take_fds(struct sbx_backend *backend, const char *program, bool with_runtimes,
                         struct cr_err *err);

/* The operator's maxima, 0 being the built-in one. */
void sbx_backend_set_maxima(struct sbx_backend *backend, const uint64_t maximum[SBX_LIMIT_COUNT]);

/*
 * The memory for all runs together; no single one may ask for more, whatever
 * the maxima said. Behind sbx_backend_set_maxima().
 */
void sbx_backend_share_memory(struct sbx_backend *backend, uint64_t bytes);

/*
 * The quota over all control groups of runs, in thousandths of a core: no run
 * may ask for more, which version 1 would refuse when its group is made
 * (sched-bwc.txt: "a child's bandwidth cannot exceed its parent's") and
 * version 2 would not give. Behind sbx_backend_set_maxima().
 */
void sbx_backend_share_cpu(struct sbx_backend *backend, uint32_t millicores);

/* The defaults, none above its maximum: what a run has that asks for nothing, so what boxes are
 * made with ahead. */
struct sbx_limits sbx_backend_usual_limits(const struct sbx_backend *backend);

/* Another slot, whose job sbx_job_init() has made. */
void sbx_backend_add_slot(struct sbx_backend *backend, struct sbx_job *job);

/* Opens the epoll set, with front and supervisor in it. */
int sbx_backend_open_loop(struct sbx_backend *backend, struct cr_err *err);

/* Tells the front that we are ready. `number` is crisol.sandbox.v1.Backend. */
void sbx_backend_say_hello(struct sbx_backend *backend, uint32_t number);

void sbx_backend_close(struct sbx_backend *backend);

/* loop.c */

/* What an event is about. */
enum sbx_watch_kind {
    SBX_WATCH_FRONT,
    SBX_WATCH_LIFELINE,
    SBX_WATCH_CONTROL,
    SBX_WATCH_OOM,
    SBX_WATCH_COLLECTOR,
    SBX_WATCH_OWN, /* the first of the backend's own kinds */
};

/*
 * Watches `fd` for `events`; `job` may be NULL. An fd that is watched already
 * is so for these from now on. Returns 0 or -errno.
 */
int sbx_backend_watch(struct sbx_backend *backend, int fd, uint32_t events, uint32_t kind,
                      const struct sbx_job *job);

/*
 * Before the close of a watched fd: a child that was just cloned has a copy of
 * it until it executes, and as long as there is one, epoll goes on to report
 * the fd that we have closed (epoll(7)), in vain and at once. -1 is allowed.
 */
void sbx_backend_unwatch(const struct sbx_backend *backend, int fd);

/* Serves until the front or the supervisor is gone and every run has ended. */
int sbx_backend_loop(struct sbx_backend *backend, struct cr_err *err);

/* Sends to the front; a front that does not take it is dropped. */
void sbx_backend_send(struct sbx_backend *backend, const union sbx_msg *msg);

/* Kills every run and ends the loop when all are gone. Safe to repeat. */
void sbx_backend_begin_stop(struct sbx_backend *backend, const char *why);

/* Ends every run without an answer. */
void sbx_backend_abandon_all(struct sbx_backend *backend);
