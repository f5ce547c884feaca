/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

struct cr_err;
struct rpc_channel;
struct rpc_health_port;
struct rpc_loop;

/*
 * What the port of health says of an orchestrator. "startup" and the service's
 * own name follow what it has itself; "readiness" and "" serve when, besides, a
 * sandboxd says that it serves, so that callers are sent to one that can work.
 * The model is not asked: when it is down, it is down for every orchestrator.
 */
struct agt_readiness;

#define AGT_READINESS_ASKED_MS 3000 /* an answer that is later counts as none */

/* All borrowed: `port` until the free; `loop` ends its calls before it is gone itself. */
int agt_readiness_new(struct rpc_health_port *port, struct rpc_loop *loop,
                      struct rpc_channel *channel, struct agt_readiness **ret_readiness,
                      struct cr_err *err);
struct agt_readiness *
agt_readiness_free(struct agt_readiness *readiness); /* NULL is allowed; returns NULL */

/* Whether the orchestrator itself takes calls. Any thread. */
void agt_readiness_set_serving(struct agt_readiness *readiness, bool is_serving);

/* Asks sandboxd, unless it is still asked; to be called every few seconds. Any thread. */
void agt_readiness_look(struct agt_readiness *readiness);
