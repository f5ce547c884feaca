/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/bucket.h"

#include "common/clock.h"

bool rpc_bucket_take(struct rpc_bucket *bucket, const struct cr_rate *rate, int64_t now_ns)
{
    int64_t token_ns = CR_NS_PER_S / rate->per_s;
    int64_t full_ns = bucket->full_ns > now_ns ? bucket->full_ns : now_ns;

    if (full_ns + token_ns - now_ns > token_ns * rate->burst)
        return false;
    bucket->full_ns = full_ns + token_ns;
    return true;
}

bool rpc_bucket_is_full(const struct rpc_bucket *bucket, int64_t now_ns)
{
    return bucket->full_ns <= now_ns;
}
