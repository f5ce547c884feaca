/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "rpc/server.h"

struct agt_runs;

/* What the handlers of AgentService need: the context of the rpc_server. */
struct agt_service {
    struct agt_runs *runs; /* borrowed; outlives the server */
};

/* crisol.agent.v1.AgentService, for rpc_server_new(). */
extern const struct rpc_method agt_service_methods[];
