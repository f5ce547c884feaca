/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "rpc/server.h"

struct agt_runs;
struct rpc_tokens;

/* What the handlers of AgentService need: the context of the rpc_server. */
struct agt_service {
    struct agt_runs *runs; /* borrowed; outlives the server */
    struct rpc_tokens
        *tokens; /* asked of TCP callers without a certificate; NULL: none. Borrowed */
};

/* rpc_authorize: health may be asked by everybody. */
bool agt_service_authorize(void *context, const struct rpc_call *call, char caller[64],
                           struct rpc_status *ret_status);

/* crisol.agent.v1.AgentService, for rpc_server_new(). */
extern const struct rpc_method agt_service_methods[];
