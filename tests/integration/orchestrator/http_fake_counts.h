/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdatomic.h>

/* What fake_counts() reads; shared by the two doubles. */
struct fake_atomic_counts {
    atomic_uint runs_live;
    atomic_uint runs_cancelled;
    atomic_uint watches_live;
    atomic_uint executions_live;
    atomic_uint executions_cancelled;
    atomic_uint executions_ended;
};

extern struct fake_atomic_counts fake_now;
