/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "orchestrator/sandbox/sandbox.h"

#include <crisol/sandbox/v1/sandbox.pb-c.h>
#include <stdbool.h>
#include <stdint.h>

struct rpc_channel;
struct rpc_loop;

/*
 * What was last seen of sandboxd, so that whoever needs to know, a health check
 * or the check of a request, need not wait for it behind all that runs ask of
 * it. Any thread; what is asked is answered on that of the client.
 */
struct agt_sight;

struct agt_seen {
    bool is_there; /* it has answered; the others say nothing otherwise */
    Crisol__Sandbox__V1__Backend backend;
    char version[64];
    struct agt_sandbox_bounds bounds;
};

#define AGT_SIGHT_OLD_MS 2000         /* what is older says nothing any more */
#define AGT_SIGHT_FRESH_MS 250        /* what is older is looked at anew */
#define AGT_SIGHT_ASKED_MS 1000       /* an answer that is later counts as none */
#define AGT_SIGHT_BOUNDS_OLD_MS 10000 /* so long do its bounds count */

extern const struct rpc_client_method agt_get_capabilities;

struct agt_sight *agt_sight_new(void); /* NULL: out of memory */
/* NULL is allowed; returns NULL. What is still asked may end later. */
struct agt_sight *agt_sight_free(struct agt_sight *sight);

/* Looks, unless a look goes on: for the first time, so that who asks first need not wait either. */
void agt_sight_look(struct agt_sight *sight, struct rpc_loop *loop, struct rpc_channel *channel);

/*
 * What was seen within AGT_SIGHT_OLD_MS (AGT_SIGHT_FRESH_MS when it was not
 * there: who waits for it is told at once); false when nothing was. Looks anew
 * in the background, over `channel`, unless it is fresh. `loop` ends every
 * call before it is gone itself.
 */
bool agt_sight_get(struct agt_sight *sight, struct rpc_loop *loop, struct rpc_channel *channel,
                   struct agt_seen *ret_seen);

/* The bounds seen last, within AGT_SIGHT_BOUNDS_OLD_MS; false when sandboxd was not there then. */
bool agt_sight_get_bounds(struct agt_sight *sight, struct agt_sandbox_bounds *ret_bounds);

/* An answer came, or none (NULL). */
void agt_sight_set(struct agt_sight *sight,
                   const Crisol__Sandbox__V1__GetCapabilitiesResponse *answer,
                   struct agt_seen *ret_seen);
