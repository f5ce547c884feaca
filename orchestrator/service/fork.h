/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <protobuf-c/protobuf-c.h>

struct rpc_call;

/* Internal to orchestrator/service: ForkRun, which waits for the store. */
void agt_service_fork_run(struct rpc_call *call, const ProtobufCMessage *message);

/* Callbacks of the method table. */
void agt_service_fork_answer(struct rpc_call *call);
void agt_service_fork_free(struct rpc_call *call);
