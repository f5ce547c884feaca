/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "sandboxd/docker/run.h"

/* Between run_start.c, run.c and run_end.c: the three thirds of a run. */

/* Goes to another state, which the table must allow; the other timers stop. */
void sbx_docker_run_move(struct sbx_docker_run *run, enum sbx_docker_state to, int64_t deadline_ns);

/* run_start.c: begins with the container; ends in PREPARING, or gives up with a RESULT. */
void sbx_docker_run_create(struct sbx_docker *docker, struct sbx_docker_run *run);

/* run.c: SIGKILL for all of the box. What made us do it is already in the facts. */
void sbx_docker_run_kill(struct sbx_docker *docker, struct sbx_docker_run *run, int64_t now_ns);

/* run_end.c */

/* Reads the counters while the control group is still there. */
void sbx_docker_run_measure(struct sbx_docker_run *run);

/* Box and relay are gone. A run that was started goes on to DRAINING, others end. */
void sbx_docker_run_on_empty(struct sbx_docker *docker, struct sbx_docker_run *run);

/* The front or the collector took too long. */
void sbx_docker_run_on_drain_time(struct sbx_docker *docker, struct sbx_docker_run *run,
                                  int64_t now_ns);

/* Nobody waits for the answer any more. */
void sbx_docker_run_abandon_drain(struct sbx_docker *docker, struct sbx_docker_run *run);

/* Sends RESULT, gives the container to the wreckage and frees the slot. */
void sbx_docker_run_finish(struct sbx_docker *docker, struct sbx_docker_run *run);
