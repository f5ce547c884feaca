/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/model/backoff.h"

#include <sys/random.h>

static const uint32_t MAX_DELAY_MS = 60000;

uint32_t agt_random_below(uint32_t bound)
{
    uint32_t value = 0;

    (void)!getrandom(&value, sizeof(value), 0);
    return value % bound;
}

uint32_t agt_backoff_ms(uint32_t first_ms, uint32_t attempts, int64_t asked_ms)
{
    uint64_t delay_ms = first_ms;

    for (uint32_t i = 1; i < attempts && delay_ms < MAX_DELAY_MS; i++)
        delay_ms *= 2;
    if (delay_ms > MAX_DELAY_MS)
        delay_ms = MAX_DELAY_MS;
    delay_ms += agt_random_below((uint32_t)delay_ms / 4 + 1);
    if (asked_ms < 0)
        return (uint32_t)delay_ms;
    delay_ms = delay_ms < 1000 ? delay_ms : 1000;
    if (asked_ms > INT32_MAX)
        asked_ms = INT32_MAX;
    return (uint32_t)asked_ms + (uint32_t)delay_ms;
}
