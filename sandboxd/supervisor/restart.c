/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/supervisor/restart.h"

#define FIRST_DELAY_MS 50
#define LAST_DELAY_MS 5000
#define HEALTHY_MS 60000 /* a child that lived so long was well: count anew */
#define FAILURES_MAX 12U

int sbx_restart_delay_ms(struct sbx_restart *restart, int64_t lived_ms)
{
    int delay_ms = FIRST_DELAY_MS;

    if (lived_ms >= HEALTHY_MS)
        restart->failures = 0;
    restart->failures++;
    if (restart->failures > FAILURES_MAX)
        return -1;
    for (unsigned int i = 1; i < restart->failures && delay_ms < LAST_DELAY_MS; i++)
        delay_ms *= 2;
    return delay_ms < LAST_DELAY_MS ? delay_ms : LAST_DELAY_MS;
}
