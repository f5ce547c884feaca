/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "sandboxd/backend/session.h"
#include "sandboxd/docker/box.h"
#include "sandboxd/docker/relay.h"

#include <stdbool.h>

struct sbx_backend;
struct sbx_docker;
struct sbx_docker_run;
struct sbx_job;

/*
 * What a session keeps: one container, in which its runs follow each other. It
 * is made for the first of them as for any run; while a run is in it, it is the
 * run's. Nobody can be kept apart in there by ids or namespaces, as on native:
 * sandbox-init ends what a run leaves (init/kept.h), and the control group has
 * to agree. The files are the container's, so a session ends with it.
 */
struct sbx_docker_session {
    struct sbx_session base;   /* first, so that one is found from the other */
    struct sbx_docker_box box; /* between two runs; nothing before the first one */
    struct sbx_relay relay;    /* of the last run, until the connection is free again */
};

/* Once per session. */
void sbx_docker_session_init(struct sbx_docker_session *session);

/* The steps of struct sbx_backend_ops. */
int sbx_docker_session_make(struct sbx_backend *backend, struct sbx_session *base);
void sbx_docker_session_drop(struct sbx_backend *backend, struct sbx_session *base);
bool sbx_docker_session_check(struct sbx_backend *backend, struct sbx_session *base, bool is_late);

/*
 * A run begins in its session. True when that has a container: the run gets it,
 * now or when the run before it has left. False: it has to make one.
 */
bool sbx_docker_session_enter(struct sbx_docker *docker, struct sbx_docker_run *run);

/*
 * The run is to end, or has: asks for the end that its box survives. False when
 * that cannot be, because the session ends as well or nobody is there to ask.
 */
bool sbx_docker_session_ask(struct sbx_docker *docker, struct sbx_docker_run *run);

/* True when the kernel, too, sees nobody of the run: no more processes than waited beside it. */
bool sbx_docker_session_is_quiet(const struct sbx_docker_run *run);

/* The relay of a run in a session ended with that exit code. */
void sbx_docker_session_on_relay(struct sbx_docker *docker, struct sbx_docker_run *run, int code);

/* The container of a run in a session has ended: what the session kept is gone. */
void sbx_docker_session_on_box(struct sbx_docker *docker, struct sbx_docker_run *run);

/* The run is over. Takes its box back, or ends when there is none to take. */
void sbx_docker_session_leave(struct sbx_docker *docker, struct sbx_docker_run *run);

/* A container ended between two runs, or a relay that was waited for. */
void sbx_docker_session_on_event(struct sbx_docker *docker);
