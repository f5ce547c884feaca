/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/graph/usage.h"

#include <stdint.h>

static void add(uint32_t *sum, uint32_t number)
{
    *sum = number > UINT32_MAX - *sum ? UINT32_MAX : *sum + number;
}

void agt_usage_add(Crisol__Agent__V1__ModelUsage *sum, const Crisol__Agent__V1__ModelUsage *call)
{
    add(&sum->calls, call->calls);
    add(&sum->retries, call->retries);
    add(&sum->prompt_tokens, call->prompt_tokens);
    add(&sum->answer_tokens, call->answer_tokens);
    add(&sum->thought_tokens, call->thought_tokens);
    add(&sum->total_tokens, call->total_tokens);
    add(&sum->cost_micro_usd, call->cost_micro_usd);
}
