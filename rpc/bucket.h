/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "common/edge.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * A token bucket, kept as the time at which it will be full again (the
 * "generic cell rate algorithm"): one number, nothing to refill. Zeroed it is
 * full. Internal to rpc/.
 */
struct rpc_bucket {
    int64_t full_ns;
};

/* Takes one token; false when there is none, and then nothing is taken. */
bool rpc_bucket_take(struct rpc_bucket *bucket, const struct cr_rate *rate, int64_t now_ns);

/* True when nothing is missing from it. */
bool rpc_bucket_is_full(const struct rpc_bucket *bucket, int64_t now_ns);
