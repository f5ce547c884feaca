/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "sandboxd/backend/collector.h"
#include "sandboxd/backend/job.h"
#include "sandboxd/docker/box.h"
#include "sandboxd/docker/relay.h"
#include "sandboxd/wire/boxctl.h"

#include <stdbool.h>
#include <stdint.h>

#include <sys/types.h>

struct sbx_docker;

/* What sandbox-init told of a box that is read from inside (init/inside.h). */
struct sbx_docker_told {
    struct sbx_cgroup_usage usage;
    uint64_t workspace_bytes;
    uint64_t workspace_inodes;
    uint64_t workspace_state; /* SBX_WORKSPACE_… */
};

/* A slot, and the box of the run in it, whose container goes to the wreckage at the end. */
struct sbx_docker_run {
    struct sbx_job job;        /* first, so that one is found from the other */
    struct sbx_docker_box box; /* its group is the job's once it is made */
    struct sbx_relay relay;    /* its control socket is the job's */
    struct sbx_docker_told told;
    bool is_alone; /* sandbox-init is the last process of the box: as good as dead */
    /* Of a run in a session, see session.h. */
    bool is_waiting;   /* for the run before it to leave the container */
    bool is_asked;     /* sandbox-init is to end it */
    bool is_rested;    /* and has, and waits for the next */
    int64_t answer_ns; /* sandbox-init has to end the box by then; INT64_MAX: it need not */
};

/* The run whose job that is. */
struct sbx_docker_run *sbx_docker_run_of(struct sbx_job *job);

/* ---- the steps of struct sbx_backend_ops ---- */

/* run_start.c */

/* Once per slot. */
void sbx_docker_run_init(struct sbx_docker_run *run, uint32_t slot);

void sbx_docker_run_start(struct sbx_backend *backend, struct sbx_job *job);
void sbx_docker_run_on_start_time(struct sbx_backend *backend, struct sbx_job *job);
void sbx_docker_run_on_start_cancelled(struct sbx_backend *backend, struct sbx_job *job);
int sbx_docker_run_before_go(struct sbx_backend *backend, struct sbx_job *job, struct cr_err *err);

/*
 * Starts the relay of a box, which then waits for its run. `has_filter`: its
 * sandbox-init does. *ret_relay is untouched on failure.
 */
int sbx_docker_start_relay(struct sbx_docker *docker, const struct sbx_docker_box *box,
                           bool has_filter, struct sbx_relay *ret_relay, struct cr_err *err);

/* run.c */
bool sbx_docker_run_on_own_message(struct sbx_backend *backend, struct sbx_job *job,
                                   const struct sbx_init_msg *msg);
int sbx_docker_run_park(struct sbx_backend *backend, struct sbx_job *job);
void sbx_docker_run_kill(struct sbx_backend *backend, struct sbx_job *job);
bool sbx_docker_run_is_alone(struct sbx_backend *backend, struct sbx_job *job);
void sbx_docker_run_on_kill_time(struct sbx_backend *backend, struct sbx_job *job);
void sbx_docker_run_measure(struct sbx_backend *backend, struct sbx_job *job);
int sbx_docker_run_open_folder(struct sbx_backend *backend, struct sbx_job *job, uid_t *ret_owner);
size_t sbx_docker_run_get_places(struct sbx_backend *backend, struct sbx_job *job,
                                 int ret_fds[SBX_COLLECTOR_PLACES]);
void sbx_docker_run_release(struct sbx_backend *backend, struct sbx_job *job);

/* run_inside.c: what of that is another for a box that is read from inside */
bool sbx_docker_inside_take_collector(struct sbx_backend *backend, struct sbx_job *job,
                                      pid_t *ret_pid, int *ret_pidfd);
bool sbx_docker_inside_on_message(struct sbx_docker *docker, struct sbx_docker_run *run,
                                  const struct sbx_init_msg *msg);
void sbx_docker_inside_kill(struct sbx_docker_run *run);
void sbx_docker_inside_measure(struct sbx_docker_run *run);
void sbx_docker_inside_on_relay(struct sbx_docker *docker, struct sbx_docker_run *run);
/* answer_ns has passed. */
void sbx_docker_inside_on_time(struct sbx_docker *docker, struct sbx_docker_run *run);

/* ---- its own events ---- */

/* run_start.c: the end of the making of its box, see box.h. */
void sbx_docker_run_on_made(struct sbx_docker *docker, struct sbx_docker_run *run);
void sbx_docker_run_on_not_made(struct sbx_docker *docker, struct sbx_docker_run *run,
                                enum sbx_stage stage, int error, const char *text);

/* Neither we nor the program ended it: notes what did, as far as it is known, and kills. */
void sbx_docker_run_note_loss(struct sbx_docker *docker, struct sbx_docker_run *run);

/* run.c: the relay, or the container's pid 1, ended. */
void sbx_docker_run_on_relay(struct sbx_docker *docker, struct sbx_docker_run *run);
void sbx_docker_run_on_box(struct sbx_docker *docker, struct sbx_docker_run *run);
