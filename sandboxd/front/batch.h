/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <protobuf-c/protobuf-c.h>

struct rpc_call;

/*
 * The handlers of RunBatch; see struct rpc_method. Every item is run and
 * answered as a Run of its own; what one stream has in hand is bounded by not
 * reading the next item from it.
 */
void sbx_batch_start(struct rpc_call *call);
void sbx_batch_message(struct rpc_call *call, const ProtobufCMessage *message);
void sbx_batch_half_close(struct rpc_call *call);

/* Sends what there is and can be sent, and reads on: on_writable and on_wake. */
void sbx_batch_pump(struct rpc_call *call);
void sbx_batch_cancel(struct rpc_call *call);
void sbx_batch_free(struct rpc_call *call);
