/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <protobuf-c/protobuf-c.h>

struct rpc_call;

/* Internal to orchestrator/service: ExportRun. The store is read on its own thread, and what it
 * gave goes out in pieces, each when the one before has left. */
void agt_service_export_run(struct rpc_call *call, const ProtobufCMessage *message);

/* Callbacks of the method table. */
void agt_service_export_pump(struct rpc_call *call);
void agt_service_export_free(struct rpc_call *call);
