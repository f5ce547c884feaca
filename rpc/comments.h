/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include <protobuf-c/protobuf-c.h>

struct cr_buf;

/*
 * The comments of .proto files, from a serialized FileDescriptorSet that was
 * made with --include_source_info. Pure; each call reads through the set, so
 * whoever asks for many keeps what it made of them.
 */
struct rpc_comments {
    const uint8_t *data; /* borrowed; NULL: there are no comments */
    size_t size;
};

/*
 * Appends the comment in front of a message, and of one of its fields (`field`
 * NULL: of the message itself), as one line. Nothing when there is none.
 * Returns 0, or as cr_buf_add().
 */
int rpc_comments_add_message(const struct rpc_comments *comments,
                             const ProtobufCMessageDescriptor *message, const char *field,
                             struct cr_buf *buf);

/* The same of an enum, and of one of its values. */
int rpc_comments_add_enum(const struct rpc_comments *comments,
                          const ProtobufCEnumDescriptor *descriptor, const char *value,
                          struct cr_buf *buf);
