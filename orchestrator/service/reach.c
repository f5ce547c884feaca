/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/service/reach.h"

#include <limits.h>

bool agt_reach_begin(struct agt_reach *reach)
{
    if (reach->is_looking)
        return false;
    reach->is_looking = true;
    reach->was_seen = false;
    return true;
}

void agt_reach_hear(struct agt_reach *reach, bool is_serving)
{
    reach->was_seen = is_serving;
}

bool agt_reach_end(struct agt_reach *reach)
{
    bool was_reached = reach->is_reached;

    reach->is_looking = false;
    if (reach->was_seen)
        reach->misses = 0;
    else if (reach->misses < UINT_MAX)
        reach->misses++;
    if (reach->was_seen || reach->misses >= AGT_REACH_MISSES)
        reach->is_reached = reach->was_seen;
    return reach->is_reached != was_reached;
}
