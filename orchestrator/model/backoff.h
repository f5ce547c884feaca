/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

/* From 0 to bound - 1. */
uint32_t agt_random_below(uint32_t bound);

/*
 * How long to wait before the next attempt: twice as long each time, a quarter
 * of it random so that many calls do not come back at once, and never earlier
 * than the server asked for (`asked_ms`; less than 0: it did not).
 */
uint32_t agt_backoff_ms(uint32_t first_ms, uint32_t attempts, int64_t asked_ms);
