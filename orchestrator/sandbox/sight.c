/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/sandbox/sight.h"

#include "common/clock.h"
#include "rpc/client.h"
#include "rpc/status.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

const struct rpc_client_method agt_get_capabilities = {
    .path = "/crisol.sandbox.v1.SandboxService/GetCapabilities",
    .request = &crisol__sandbox__v1__get_capabilities_request__descriptor,
    .response = &crisol__sandbox__v1__get_capabilities_response__descriptor,
};

struct agt_sight {
    atomic_uint refs;     /* the owner's, and that of a look */
    pthread_mutex_t lock; /* guards all below */
    bool is_looking;
    bool has_answer; /* to the look that goes on */
    int64_t seen_ns; /* 0: never */
    struct agt_seen seen;
};

struct agt_sight *agt_sight_new(void)
{
    struct agt_sight *sight = calloc(1, sizeof(*sight));

    if (!sight)
        return NULL;
    atomic_init(&sight->refs, 1);
    (void)pthread_mutex_init(&sight->lock, NULL);
    return sight;
}

struct agt_sight *agt_sight_free(struct agt_sight *sight)
{
    if (!sight || atomic_fetch_sub(&sight->refs, 1) != 1)
        return NULL;
    (void)pthread_mutex_destroy(&sight->lock);
    free(sight);
    return NULL;
}

/* NULL: it was not told. */
static void set_limits(const Crisol__Sandbox__V1__Limits *told, Crisol__Sandbox__V1__Limits *limits)
{
    static const Crisol__Sandbox__V1__Limits none = CRISOL__SANDBOX__V1__LIMITS__INIT;

    *limits = told ? *told : none;
    limits->base.n_unknown_fields = 0; /* which are the answer's, and go with it */
    limits->base.unknown_fields = NULL;
}

static void set(struct agt_sight *sight, const Crisol__Sandbox__V1__GetCapabilitiesResponse *answer)
{
    sight->seen_ns = cr_clock_mono_ns();
    sight->seen = (struct agt_seen){.is_there = answer != NULL};
    if (!answer)
        return;
    sight->seen.backend = answer->backend;
    (void)snprintf(sight->seen.version, sizeof(sight->seen.version), "%s", answer->version);
    set_limits(answer->minimum_limits, &sight->seen.bounds.least);
    set_limits(answer->maximum_limits, &sight->seen.bounds.most);
}

void agt_sight_set(struct agt_sight *sight,
                   const Crisol__Sandbox__V1__GetCapabilitiesResponse *answer,
                   struct agt_seen *ret_seen)
{
    (void)pthread_mutex_lock(&sight->lock);
    set(sight, answer);
    *ret_seen = sight->seen;
    (void)pthread_mutex_unlock(&sight->lock);
}

static bool on_message(void *user, const ProtobufCMessage *message)
{
    struct agt_sight *sight = user;

    (void)pthread_mutex_lock(&sight->lock);
    sight->has_answer = true;
    set(sight, (const void *)message);
    (void)pthread_mutex_unlock(&sight->lock);
    return true;
}

static void end_look(struct agt_sight *sight)
{
    (void)pthread_mutex_lock(&sight->lock);
    sight->is_looking = false;
    if (!sight->has_answer)
        set(sight, NULL);
    (void)pthread_mutex_unlock(&sight->lock);
    (void)agt_sight_free(sight);
}

static void on_end(void *user, const struct rpc_status *status)
{
    (void)status;
    end_look(user);
}

static void look(struct agt_sight *sight, struct rpc_loop *loop, struct rpc_channel *channel)
{
    static const Crisol__Sandbox__V1__GetCapabilitiesRequest request =
        CRISOL__SANDBOX__V1__GET_CAPABILITIES_REQUEST__INIT;
    const struct rpc_client_handlers handlers = {
        .on_message = on_message, .on_end = on_end, .user = sight};
    struct rpc_client_call *call = NULL;

    (void)atomic_fetch_add(&sight->refs, 1);
    if (rpc_client_start(loop, channel, &agt_get_capabilities, &request.base, AGT_SIGHT_ASKED_MS,
                         &handlers, &call, NULL) < 0)
        end_look(sight);
    else
        (void)rpc_client_unref(call);
}

/* With the lock. */
static void set_looking(struct agt_sight *sight)
{
    sight->is_looking = true;
    sight->has_answer = false;
}

void agt_sight_look(struct agt_sight *sight, struct rpc_loop *loop, struct rpc_channel *channel)
{
    bool must_look;

    (void)pthread_mutex_lock(&sight->lock);
    must_look = !sight->is_looking;
    if (must_look)
        set_looking(sight);
    (void)pthread_mutex_unlock(&sight->lock);
    if (must_look)
        look(sight, loop, channel);
}

bool agt_sight_get(struct agt_sight *sight, struct rpc_loop *loop, struct rpc_channel *channel,
                   struct agt_seen *ret_seen)
{
    int64_t now_ns = cr_clock_mono_ns();
    bool must_look = false;
    bool is_known;
    bool is_fresh;

    (void)pthread_mutex_lock(&sight->lock);
    *ret_seen = sight->seen;
    is_known = sight->seen_ns != 0 && now_ns - sight->seen_ns < AGT_SIGHT_OLD_MS * CR_NS_PER_MS;
    is_fresh = is_known && now_ns - sight->seen_ns < AGT_SIGHT_FRESH_MS * CR_NS_PER_MS;
    is_known = is_known && (sight->seen.is_there || is_fresh);
    if (is_known && !is_fresh && !sight->is_looking) {
        must_look = true;
        set_looking(sight);
    }
    (void)pthread_mutex_unlock(&sight->lock);
    if (must_look)
        look(sight, loop, channel);
    return is_known;
}

bool agt_sight_get_bounds(struct agt_sight *sight, struct agt_sandbox_bounds *ret_bounds)
{
    int64_t now_ns = cr_clock_mono_ns();
    bool is_known;

    (void)pthread_mutex_lock(&sight->lock);
    is_known = sight->seen_ns != 0 && sight->seen.is_there &&
               now_ns - sight->seen_ns < AGT_SIGHT_BOUNDS_OLD_MS * CR_NS_PER_MS;
    if (is_known)
        *ret_bounds = sight->seen.bounds;
    (void)pthread_mutex_unlock(&sight->lock);
    return is_known;
}
