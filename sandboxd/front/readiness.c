/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/front/readiness.h"

enum sbx_readiness_step sbx_readiness_next(const struct sbx_readiness *readiness, bool is_up,
                                           unsigned int generation)
{
    if (readiness->has_proven && readiness->proven == generation)
        return SBX_READINESS_SERVE;
    return is_up ? SBX_READINESS_PROVE : SBX_READINESS_WAIT;
}

bool sbx_readiness_conclude(struct sbx_readiness *readiness, unsigned int begun, unsigned int now,
                            bool is_ok)
{
    if (!is_ok || begun != now)
        return false;
    readiness->has_proven = true;
    readiness->proven = begun;
    return true;
}
