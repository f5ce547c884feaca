/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Internal to rpc/: reads protobuf's wire format field by field, without
 * knowing the message. Borrows; pure.
 */
struct rpc_span {
    const uint8_t *data;
    size_t size;
};

/*
 * Takes one field off the front. *ret_value is the content of a string, bytes
 * or message field, and the raw bytes of a number. Returns false at the end
 * and when the rest is malformed: then span->size is not 0.
 */
bool rpc_span_next(struct rpc_span *span, uint32_t *ret_field, struct rpc_span *ret_value);

/* The first value of a field; empty when absent. */
struct rpc_span rpc_span_get(struct rpc_span span, uint32_t field);
