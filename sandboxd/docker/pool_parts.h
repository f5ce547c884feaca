/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "sandboxd/docker/pool.h"

#include <stdint.h>

struct sbx_docker;

/* What the parts of the pool share. */

#define SBX_DOCKER_POOL_RETRY_NS CR_NS_PER_S

/* For logs, as in --pool. */
const char *sbx_docker_kind_name(uint32_t kind);

/* pool.c */

/* The one way to change a slot's state. */
void sbx_docker_slot_move(struct sbx_docker *docker, struct sbx_docker_slot *slot,
                          enum sbx_docker_slot_state to, int64_t deadline_ns);

/* Drops its box; the slot is free. */
void sbx_docker_slot_discard(struct sbx_docker *docker, struct sbx_docker_slot *slot);

/* Its box waits for a run from now on. */
void sbx_docker_slot_become_idle(struct sbx_docker *docker, struct sbx_docker_slot *slot);

/* pool_load.c: an interpreter in a box that was just made. */

/* Orders it. */
void sbx_docker_slot_load(struct sbx_docker *docker, struct sbx_docker_slot *slot);

/* Takes what its sandbox-init says meanwhile. */
void sbx_docker_slot_hear(struct sbx_docker *docker, struct sbx_docker_slot *slot);

/* It does not come to wait: says so, discards it, and puts its kind off, longer each time. */
void sbx_docker_slot_give_up(struct sbx_docker *docker, struct sbx_docker_slot *slot,
                             const char *text);
