/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "sandboxd/backend/ahead.h"
#include "sandboxd/docker/box.h"

#include <stdbool.h>
#include <stdint.h>

struct cr_err;
struct sbx_docker;
struct sbx_docker_run;

enum sbx_docker_slot_state {
    SBX_DOCKER_SLOT_FREE,
    SBX_DOCKER_SLOT_STARTING, /* its box is being made */
    SBX_DOCKER_SLOT_IDLE,     /* waits for a run */
    SBX_DOCKER_SLOT_STATE_COUNT,
};

struct sbx_docker_slot {
    enum sbx_docker_slot_state state;
    struct sbx_docker_box box;
    int64_t deadline_ns; /* of the state; INT64_MAX: none */
};

/*
 * Containers that are started ahead and wait, each for one run. One that dies
 * or has waited for long makes place for another; they are this service's
 * containers as all others, so that a sweep knows them.
 */
struct sbx_docker_pool {
    struct sbx_docker_slot slots[SBX_AHEAD_MAX];
    uint32_t slot_count;
    uint32_t starting_most; /* at one time: as many as there are cores */
    int64_t retry_ns;       /* nothing is started before; after a failure */
};

/* True when the table of the machine has that edge. Pure. */
bool sbx_docker_slot_can_move(enum sbx_docker_slot_state from, enum sbx_docker_slot_state to);

/* `text` is what --pool says; NULL: the standard. Starts nothing yet. */
int sbx_docker_pool_init(struct sbx_docker_pool *pool, const char *text, struct cr_err *err);

/*
 * Finds a waiting box for the run, gives it the limits of the run and hands it
 * over, made. Returns true; false when there is none, and nothing has happened
 * to the run.
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
