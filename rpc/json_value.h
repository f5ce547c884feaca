/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <protobuf-c/protobuf-c.h>

/*
 * Scalar values as proto3 JSON writes them. Internal to rpc/. Pure: no
 * allocation; texts need no NUL behind them. All return false when the text is
 * no such value or out of range, and then leave the result untouched.
 */

/* "12", "-3", and also "1e3" and "2.0", which are whole numbers. Exact over the whole range. */
bool rpc_json_parse_int64(const char *text, size_t size, int64_t low, int64_t high,
                          int64_t *ret_value);
bool rpc_json_parse_uint64(const char *text, size_t size, uint64_t high, uint64_t *ret_value);

/* A finite number, or NaN, Infinity, -Infinity. */
bool rpc_json_parse_double(const char *text, size_t size, double *ret_value);

#define RPC_JSON_NUMBER_MAX 64U

/* The text of a finite number as ECMAScript has it (262, Number::toString): 1.0 is "1". */
bool rpc_json_number_text(const char *text, size_t size, char ret_text[RPC_JSON_NUMBER_MAX]);

/*
 * Base64 of either alphabet, padded or not. `out` has room for
 * size / 4 * 3 + 3 bytes, or begins where the text does.
 */
bool rpc_json_parse_base64(const char *text, size_t size, uint8_t *out, size_t *ret_size);

/* A name of the enum, with or without the prefix of its type, or a number. */
bool rpc_json_parse_enum(const ProtobufCEnumDescriptor *descriptor, const char *text, size_t size,
                         int *ret_value);

/* "RED, GREEN, …": what the enum allows, for an error; cut at `room`. */
void rpc_json_list_enum(const ProtobufCEnumDescriptor *descriptor, char *out, size_t room);
