/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <protobuf-c/protobuf-c.h>

struct rpc_call;

/* The handlers of sandboxes that live on; see struct rpc_method. ExecuteInSandbox goes on as any
 * Execute (call.h). */
void sbx_sandbox_create(struct rpc_call *call, const ProtobufCMessage *base);
void sbx_sandbox_execute(struct rpc_call *call, const ProtobufCMessage *base);
void sbx_sandbox_list(struct rpc_call *call, const ProtobufCMessage *base);
void sbx_sandbox_delete(struct rpc_call *call, const ProtobufCMessage *base);

/* Files in and out (sandbox_files.c). */
void sbx_sandbox_write_start(struct rpc_call *call);
void sbx_sandbox_write_message(struct rpc_call *call, const ProtobufCMessage *base);
void sbx_sandbox_write_half_close(struct rpc_call *call);
void sbx_sandbox_read(struct rpc_call *call, const ProtobufCMessage *base);
void sbx_sandbox_files_pump(struct rpc_call *call);
void sbx_sandbox_files_cancel(struct rpc_call *call);
void sbx_sandbox_files_free(struct rpc_call *call);
