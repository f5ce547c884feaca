/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "rpc/server.h"

/*
 * Internal to rpc/: grpc.health.v1 (Check, Watch, List) of one server.
 *
 * A Watch stays open whatever the state: core's own health-checking client
 * starts an ended Watch again at once, 3,000 times a second. Only the drain
 * ends it.
 */
struct rpc_health;

/* Ends with a row whose path is NULL. */
extern const struct rpc_method rpc_health_methods[];

/* Knows "" and the services of the routes of the server, all NOT_SERVING. NULL on -ENOMEM. */
struct rpc_health *rpc_health_new(const struct rpc_server *server);
struct rpc_health *rpc_health_free(struct rpc_health *health); /* NULL is allowed; returns NULL */

/*
 * Any thread. Returns true when something changed. An unknown service is
 * added; when there is no room for it, or after the drain, nothing happens.
 */
bool rpc_health_set(struct rpc_health *health, const char *service, bool is_serving);

/* Everything is NOT_SERVING from now on, whatever is set. Any thread. */
void rpc_health_drain(struct rpc_health *health);
