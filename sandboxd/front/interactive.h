/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <protobuf-c/protobuf-c.h>

struct rpc_call;

/*
 * The handlers of ExecuteInteractive; see struct rpc_method. An Execute whose
 * input goes on coming: what the program has not taken holds the client back,
 * by not reading the next message from it.
 */
void sbx_interactive_message(struct rpc_call *call, const ProtobufCMessage *base);
void sbx_interactive_half_close(struct rpc_call *call);
void sbx_interactive_pump(struct rpc_call *call);
