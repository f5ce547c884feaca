/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/service/readiness.h"

#include "common/err.h"
#include "common/log.h"
#include "grpc/health/v1/health.pb-c.h"
#include "orchestrator/service/reach.h"
#include "rpc/client.h"
#include "rpc/health_port.h"
#include "rpc/status.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#define SERVICE_NAME "crisol.agent.v1.AgentService"
#define SERVING GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__SERVING

static char sandbox_service[] = "crisol.sandbox.v1.SandboxService";

static const struct rpc_client_method check_method = {
    .path = "/grpc.health.v1.Health/Check",
    .request = &grpc__health__v1__health_check_request__descriptor,
    .response = &grpc__health__v1__health_check_response__descriptor,
};

struct agt_readiness {
    atomic_uint refs;             /* the owner's, and that of a look */
    struct rpc_loop *loop;        /* borrowed */
    struct rpc_channel *channel;  /* borrowed */
    pthread_mutex_t lock;         /* guards all below, and the order of what the port is told */
    struct rpc_health_port *port; /* borrowed; NULL: the owner is gone */
    bool is_serving;
    struct agt_reach reach;
};

int agt_readiness_new(struct rpc_health_port *port, struct rpc_loop *loop,
                      struct rpc_channel *channel, struct agt_readiness **ret_readiness,
                      struct cr_err *err)
{
    struct agt_readiness *readiness = calloc(1, sizeof(*readiness));

    if (!readiness)
        return cr_err_set(err, ENOMEM, "out of memory for readiness");
    atomic_init(&readiness->refs, 1);
    (void)pthread_mutex_init(&readiness->lock, NULL); /* cannot fail with default attributes */
    readiness->port = port;
    readiness->loop = loop;
    readiness->channel = channel;
    *ret_readiness = readiness;
    return 0;
}

static void unref(struct agt_readiness *readiness)
{
    if (atomic_fetch_sub(&readiness->refs, 1) != 1)
        return;
    (void)pthread_mutex_destroy(&readiness->lock);
    free(readiness);
}

struct agt_readiness *agt_readiness_free(struct agt_readiness *readiness)
{
    if (!readiness)
        return NULL;
    (void)pthread_mutex_lock(&readiness->lock);
    readiness->port = NULL;
    (void)pthread_mutex_unlock(&readiness->lock);
    unref(readiness);
    return NULL;
}

/* With the lock. */
static void tell(const struct agt_readiness *readiness)
{
    if (!readiness->port)
        return;
    rpc_health_port_set(readiness->port, SERVICE_NAME, readiness->is_serving);
    rpc_health_port_set_ready(readiness->port,
                              readiness->is_serving && readiness->reach.is_reached);
}

void agt_readiness_set_serving(struct agt_readiness *readiness, bool is_serving)
{
    (void)pthread_mutex_lock(&readiness->lock);
    readiness->is_serving = is_serving;
    tell(readiness);
    (void)pthread_mutex_unlock(&readiness->lock);
}

static bool on_message(void *user, const ProtobufCMessage *message)
{
    const Grpc__Health__V1__HealthCheckResponse *answer = (const void *)message;
    struct agt_readiness *readiness = user;

    (void)pthread_mutex_lock(&readiness->lock);
    agt_reach_hear(&readiness->reach, answer->status == SERVING);
    (void)pthread_mutex_unlock(&readiness->lock);
    return true;
}

/* With the lock. */
static void conclude(struct agt_readiness *readiness)
{
    if (!agt_reach_end(&readiness->reach))
        return;
    if (readiness->reach.is_reached)
        cr_log_info("a sandboxd serves, ready");
    else
        cr_log_warn("no sandboxd serves, not ready; runs wait for one misses=%u",
                    readiness->reach.misses);
    tell(readiness);
}

static void end_look(struct agt_readiness *readiness)
{
    (void)pthread_mutex_lock(&readiness->lock);
    conclude(readiness);
    (void)pthread_mutex_unlock(&readiness->lock);
    unref(readiness);
}

static void on_end(void *user, const struct rpc_status *status)
{
    (void)status;
    end_look(user);
}

static bool begin_look(struct agt_readiness *readiness)
{
    bool may_begin;

    (void)pthread_mutex_lock(&readiness->lock);
    may_begin = agt_reach_begin(&readiness->reach);
    (void)pthread_mutex_unlock(&readiness->lock);
    return may_begin;
}

void agt_readiness_look(struct agt_readiness *readiness)
{
    const struct rpc_client_handlers handlers = {
        .on_message = on_message, .on_end = on_end, .user = readiness, .is_unary = true};
    Grpc__Health__V1__HealthCheckRequest request = GRPC__HEALTH__V1__HEALTH_CHECK_REQUEST__INIT;
    struct rpc_client_call *call = NULL;

    if (!begin_look(readiness))
        return;
    request.service = sandbox_service;
    (void)atomic_fetch_add(&readiness->refs, 1);
    if (rpc_client_start(readiness->loop, readiness->channel, &check_method, &request.base,
                         AGT_READINESS_ASKED_MS, &handlers, &call, NULL) < 0)
        end_look(readiness);
    else
        (void)rpc_client_unref(call);
}
