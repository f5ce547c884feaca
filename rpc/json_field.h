/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include <protobuf-c/protobuf-c.h>

#define RPC_JSON_NAME_MAX 128

/*
 * What reading, writing and describing JSON need to know about fields. proto3
 * only: every scalar is there, with its default when not set.
 */

/* "wall_time_ms" -> "wallTimeMs", as protoc makes json_name. Cut at `room`. */
void rpc_json_camel(const char *name, char *out, size_t room);

/* protobuf-c keeps no map flag: a repeated FooEntry { key = 1; value = 2; } is one. */
bool rpc_json_is_map(const ProtobufCFieldDescriptor *field);

bool rpc_json_is_oneof(const ProtobufCFieldDescriptor *field);

/* Bytes that one value of this type takes in a message struct or in a repeated array. */
size_t rpc_json_value_size(ProtobufCType type);

/* "RunStatus" -> "RUN_STATUS_", the prefix of the names of its values. Cut at `room`. */
void rpc_json_enum_prefix(const ProtobufCEnumDescriptor *descriptor, char *out, size_t room);
