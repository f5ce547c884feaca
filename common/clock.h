/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

#define CR_NS_PER_US INT64_C(1000)
#define CR_NS_PER_MS INT64_C(1000000)
#define CR_NS_PER_S INT64_C(1000000000)

/* CLOCK_MONOTONIC in nanoseconds: for durations and deadlines. */
int64_t cr_clock_mono_ns(void);

/* CLOCK_REALTIME in nanoseconds since the epoch. */
int64_t cr_clock_real_ns(void);

/* CLOCK_REALTIME in milliseconds since the epoch: for time stamps that people read. */
int64_t cr_clock_real_ms(void);
