/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include <protobuf-c/protobuf-c.h>

struct cr_buf;
struct rpc_status;

/*
 * proto3 JSON by descriptor, both ways (protobuf.dev/programming-guides/json).
 * Writing: bytes as base64, 64-bit integers as strings, enums by name,
 * defaults left out unless asked for. Reading: camelCase and snake_case names.
 */
struct rpc_json_style {
    bool use_snake_case;    /* field names as in the proto, not lowerCamelCase */
    bool with_defaults;     /* write fields that have their default value too */
    bool int64_as_number;   /* 64-bit integers below 2^53 as JSON numbers */
    bool strip_enum_prefix; /* "SUCCESS" in place of "RUN_STATUS_SUCCESS" */
};

/* Appends one line of JSON. Returns 0, or as cr_buf_add(). */
int rpc_json_write(const ProtobufCMessage *message, const struct rpc_json_style *style,
                   struct cr_buf *buf);

/* The escape of a character within a string, "\\n"; NULL when it has none of the short ones. */
const char *rpc_json_short_escape(char character);

/*
 * Reads one JSON object into a new message (protobuf_c_message_free_unpacked).
 * The text must be UTF-8, at most 4 MiB, at most 64 levels deep, with nothing
 * behind it, no duplicate key and no \u0000. On failure fills in ret_status
 * with INVALID_ARGUMENT, naming the path ("limits.wall_time_ms"), what was
 * wrong and what is allowed; *ret_message is untouched. Returns 0, -EINVAL or
 * -ENOMEM.
 */
int rpc_json_read(const ProtobufCMessageDescriptor *descriptor, const char *text, size_t size,
                  ProtobufCMessage **ret_message, struct rpc_status *ret_status);

/* What texts of clients that were written for another service may have beyond that. */
struct rpc_json_leniency {
    bool skips_unknown; /* members that the message does not have; their values must be JSON */
    bool takes_scalars; /* numbers, true and false in lists of strings, as ECMAScript writes them */
    /* Fractions above zero in int32 and int64, the next whole number: a part of one is not none. */
    bool rounds_up;
};

int rpc_json_read_leniently(const ProtobufCMessageDescriptor *descriptor, const char *text,
                            size_t size, const struct rpc_json_leniency *leniency,
                            ProtobufCMessage **ret_message, struct rpc_status *ret_status);
