/* SPDX-License-Identifier: Apache-2.0 */
#include "common/clock.h"

#include <time.h>

int64_t cr_clock_mono_ns(void)
{
    struct timespec now = {0};

    (void)clock_gettime(CLOCK_MONOTONIC, &now); /* cannot fail for this clock */
    return (int64_t)now.tv_sec * CR_NS_PER_S + now.tv_nsec;
}

int64_t cr_clock_real_ns(void)
{
    struct timespec now = {0};

    (void)clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * CR_NS_PER_S + now.tv_nsec;
}

int64_t cr_clock_real_ms(void)
{
    return cr_clock_real_ns() / CR_NS_PER_MS;
}
