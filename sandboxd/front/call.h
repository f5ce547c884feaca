/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <protobuf-c/protobuf-c.h>

struct rpc_call;

/* The handlers of Execute and Run; see struct rpc_method. Both requests are unpacked as
 * ExecuteRequest. */
void sbx_call_execute(struct rpc_call *call, const ProtobufCMessage *message);
void sbx_call_run(struct rpc_call *call, const ProtobufCMessage *message);

/* The handler of Attach. */
void sbx_call_attach(struct rpc_call *call, const ProtobufCMessage *base);

/* Sends what there is and can be sent: on_writable and on_wake. */
void sbx_call_pump(struct rpc_call *call);
void sbx_call_cancel(struct rpc_call *call);
void sbx_call_free(struct rpc_call *call);
