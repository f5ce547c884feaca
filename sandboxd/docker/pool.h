/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "sandboxd/backend/ahead.h"
#include "sandboxd/docker/box.h"
#include "sandboxd/docker/preload.h"
#include "sandboxd/wire/template.h"

#include <stdbool.h>
#include <stdint.h>

struct cr_err;
struct sbx_docker;
struct sbx_docker_run;

/* The kind of a slot: one of enum sbx_template_kind, whose interpreter waits in it, or this. */
#define SBX_DOCKER_KIND_PLAIN SBX_TEMPLATE_KIND_COUNT
#define SBX_DOCKER_KIND_COUNT (SBX_DOCKER_KIND_PLAIN + 1)

enum sbx_docker_slot_state {
    SBX_DOCKER_SLOT_FREE,
    SBX_DOCKER_SLOT_STARTING, /* its box is being made */
    SBX_DOCKER_SLOT_LOADING,  /* an interpreter starts in it */
    SBX_DOCKER_SLOT_IDLE,     /* waits for a run */
    SBX_DOCKER_SLOT_STATE_COUNT,
};

struct sbx_docker_slot {
    enum sbx_docker_slot_state state;
    uint32_t kind; /* the same for ever */
    struct sbx_docker_box box;
    struct sbx_docker_preload preload; /* while LOADING */
    uint64_t idle_bytes;               /* that it was charged for when it began to wait */
    int64_t deadline_ns;               /* of the state; INT64_MAX: none */
};

/*
 * Containers that are started ahead and wait, each for one run: with nothing
 * but sandbox-init in it, or also with the interpreter of a runtime, which has
 * loaded what that loads and becomes the program. Nothing is shared between
 * two of them. One that dies or has waited for long makes place for another;
 * they are this service's containers as all others, so that a sweep knows them.
 */
struct sbx_docker_pool {
    struct sbx_docker_slot slots[SBX_AHEAD_MAX];
    uint32_t slot_count;
    uint32_t starting_most;                       /* at one time: as many as there are cores */
    int64_t retry_ns;                             /* nothing is started before; after a failure */
    int64_t kind_retry_ns[SBX_DOCKER_KIND_COUNT]; /* the same for one kind */
    uint32_t failures[SBX_DOCKER_KIND_COUNT];     /* to start an interpreter, one after another */
};

/* True when the table of the machine has that edge. Pure. */
bool sbx_docker_slot_can_move(enum sbx_docker_slot_state from, enum sbx_docker_slot_state to);

/*
 * `text` is what --pool says; NULL: the standard. Without `has_preload` there
 * are plain slots only. Starts nothing yet.
 */
int sbx_docker_pool_init(struct sbx_docker_pool *pool, const char *text, bool has_preload,
                         struct cr_err *err);

/* Leaves the plain slots only: nobody here can write to the groups of the others. */
void sbx_docker_pool_keep_plain(struct sbx_docker_pool *pool);

/*
 * Finds a waiting box for the run, gives it the limits of the run and hands it
 * over, made; the job's start_mode says how its program comes to be. Returns
 * true; false when there is none, and nothing has happened to the run.
 */
bool sbx_docker_pool_take(struct sbx_docker *docker, struct sbx_docker_run *run);

/* The end of the making of a slot's box, see box.h. */
void sbx_docker_pool_on_made(struct sbx_docker *docker, struct sbx_docker_box *box);
void sbx_docker_pool_on_not_made(struct sbx_docker *docker, struct sbx_docker_box *box,
                                 const char *text);

/* Events of the slot's connection and of the end of its pid 1. */
void sbx_docker_pool_on_attach(struct sbx_docker *docker, uint32_t index);
void sbx_docker_pool_on_dead(struct sbx_docker *docker, uint32_t index);

/* Fills, recycles what waits for too long, drops all while the backend stops. */
void sbx_docker_pool_on_time(struct sbx_docker *docker, int64_t now_ns);
int64_t sbx_docker_pool_next_ns(const struct sbx_docker *docker);

/* No box is left. */
bool sbx_docker_pool_is_empty(const struct sbx_docker_pool *pool);
