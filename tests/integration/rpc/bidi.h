/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <protobuf-c/protobuf-c.h>

struct rpc_channel;
struct rpc_status;

/* A bidi call from the client's side, one blocking step at a time. Each step is bounded to 10 s. */
struct bidi;

struct bidi *bidi_open(struct rpc_channel *channel, const char *path);
void bidi_send(struct bidi *bidi, const ProtobufCMessage *message);
void bidi_half_close(struct bidi *bidi);

/* rpc_message_free; NULL: the server sends no more. */
ProtobufCMessage *bidi_receive(struct bidi *bidi, const ProtobufCMessageDescriptor *descriptor);

void bidi_cancel(struct bidi *bidi);

/* Waits for the end and frees. Returns the code. */
int bidi_finish(struct bidi *bidi);
