/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include <protobuf-c/protobuf-c.h>

struct cr_buf;

/*
 * Messages in packed form, which has the fields in the order of their numbers:
 * a message that is packed twice gives the same bytes, and so does its copy.
 * protobuf-c writes without looking at the room that there is; this is where it
 * is made. All return 0, or -ENOMEM with nothing left behind.
 */

/* *ret_packed is owned by the caller, free(); not NULL for a message of no bytes either. */
int rpc_pack(const ProtobufCMessage *message, uint8_t **ret_packed, size_t *ret_size);

/* Behind what is in the buffer. Also -ENOSPC, past its cap. */
int rpc_pack_into(const ProtobufCMessage *message, struct cr_buf *buf);

/* By way of the packed form, protobuf-c having no other. Owned by the caller:
 * protobuf_c_message_free_unpacked(). */
int rpc_pack_copy(const ProtobufCMessage *message, ProtobufCMessage **ret_copy);
