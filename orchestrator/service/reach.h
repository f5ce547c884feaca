/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

/* Two misses in a row are an absence: one may be a sandboxd that is just replaced. */
#define AGT_REACH_MISSES 2

/*
 * Whether a sandboxd is there that serves, as looks have found it, of which
 * there is one at a time. Pure; all zero at first: none has been seen yet.
 */
struct agt_reach {
    bool is_looking;
    bool was_seen;       /* by the look that goes on */
    bool is_reached;     /* a sandboxd serves */
    unsigned int misses; /* in a row */
};

/* False: one goes on. */
bool agt_reach_begin(struct agt_reach *reach);

/* What the look that goes on was told; none at all is as good as false. */
void agt_reach_hear(struct agt_reach *reach, bool is_serving);

/* The look is over. Returns whether `is_reached` is another than before. */
bool agt_reach_end(struct agt_reach *reach);
