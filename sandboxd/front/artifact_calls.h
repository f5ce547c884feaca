/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <protobuf-c/protobuf-c.h>

struct rpc_call;

/* The handlers of WriteArtifact, which is a stream of chunks with one answer. */
void sbx_artifact_start(struct rpc_call *call);
void sbx_artifact_message(struct rpc_call *call, const ProtobufCMessage *base);
void sbx_artifact_half_close(struct rpc_call *call);
void sbx_artifact_free(struct rpc_call *call);

/* Those of ListArtifacts and DeleteArtifact. */
void sbx_artifact_list(struct rpc_call *call, const ProtobufCMessage *message);
void sbx_artifact_delete(struct rpc_call *call, const ProtobufCMessage *base);
