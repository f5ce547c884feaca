/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "rpc/server.h"

/* ListModels: the provider is asked, and its answer sent when it has come. */
void agt_service_list_models(struct rpc_call *call, const ProtobufCMessage *message);
void agt_service_models_pump(struct rpc_call *call);
void agt_service_models_free(struct rpc_call *call);
