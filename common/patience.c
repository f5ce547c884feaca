/* SPDX-License-Identifier: Apache-2.0 */
#include "common/patience.h"

#include <limits.h>

static uint32_t times = 1; /* of the process, as the log's level is */

void cr_patience_set(uint64_t slowness)
{
    times = slowness < 1 ? 1 : (uint32_t)(slowness < CR_SLOWNESS_MAX ? slowness : CR_SLOWNESS_MAX);
}

uint32_t cr_patience(void)
{
    return times;
}

int cr_patience_ms(int usual_ms)
{
    const int64_t ms = (int64_t)usual_ms * times;

    return ms < INT_MAX ? (int)ms : INT_MAX;
}

int64_t cr_patience_ns(int64_t usual_ns)
{
    return usual_ns * times;
}
