/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <protobuf-c/protobuf-c.h>

struct rpc_call;

/* Internal to orchestrator/service: the handlers that ask about runs by id, and DescribeGraph. */
void agt_service_submit_run(struct rpc_call *call, const ProtobufCMessage *message);
void agt_service_get_run(struct rpc_call *call, const ProtobufCMessage *message);
void agt_service_list_runs(struct rpc_call *call, const ProtobufCMessage *message);
void agt_service_watch_run(struct rpc_call *call, const ProtobufCMessage *message);
void agt_service_cancel_run(struct rpc_call *call, const ProtobufCMessage *message);
void agt_service_cancel_answer(struct rpc_call *call);
void agt_service_cancel_free(struct rpc_call *call);
void agt_service_resume_run(struct rpc_call *call, const ProtobufCMessage *message);
void agt_service_delete_run(struct rpc_call *call, const ProtobufCMessage *message);
void agt_service_describe_graph(struct rpc_call *call, const ProtobufCMessage *message);
