/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * For foreign interfaces that take a non-const pointer to what they only read
 * (protobuf-c packing, gRPC channel arguments): names the promise at the call.
 */
static inline void *cr_unconst(const void *pointer)
{
    union {
        const void *in;
        void *out;
    } same = {pointer};

    return same.out;
}
