/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/span.h"

static bool take_varint(struct rpc_span *span, uint64_t *ret_value)
{
    uint64_t value = 0;

    for (unsigned int i = 0; i < 10 && i < span->size; i++) {
        value |= (uint64_t)(span->data[i] & 0x7F) << (7 * i);
        if (span->data[i] < 0x80) {
            span->data += i + 1;
            span->size -= i + 1;
            *ret_value = value;
            return true;
        }
    }
    return false;
}

static bool take_bytes(struct rpc_span *span, uint64_t size, struct rpc_span *ret_value)
{
    if (size > span->size)
        return false;
    *ret_value = (struct rpc_span){span->data, (size_t)size};
    span->data += size;
    span->size -= (size_t)size;
    return true;
}

/* Moves `rest` on. */
static bool take_field(struct rpc_span *rest, uint32_t *ret_field, struct rpc_span *ret_value)
{
    const uint8_t *start;
    uint64_t number;
    uint64_t key;

    if (!take_varint(rest, &key) || key >> 3 == 0 || key >> 3 > UINT32_MAX >> 3)
        return false;
    *ret_field = (uint32_t)(key >> 3);
    start = rest->data;
    switch (key & 7) {
    case 0:
        if (!take_varint(rest, &number))
            return false;
        *ret_value = (struct rpc_span){start, (size_t)(rest->data - start)};
        return true;
    case 1:
        return take_bytes(rest, 8, ret_value);
    case 2:
        return take_varint(rest, &number) && take_bytes(rest, number, ret_value);
    case 5:
        return take_bytes(rest, 4, ret_value);
    default: /* groups are not in proto3 */
        return false;
    }
}

bool rpc_span_next(struct rpc_span *span, uint32_t *ret_field, struct rpc_span *ret_value)
{
    struct rpc_span rest = *span;

    if (span->size == 0 || !take_field(&rest, ret_field, ret_value))
        return false;
    *span = rest;
    return true;
}

struct rpc_span rpc_span_get(struct rpc_span span, uint32_t field)
{
    struct rpc_span value;
    uint32_t found;

    while (rpc_span_next(&span, &found, &value)) {
        if (found == field)
            return value;
    }
    return (struct rpc_span){NULL, 0};
}
