/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

/*
 * Whether the front serves: when one real run, through the backend that is
 * there now, has ended well. A backend that comes or goes is another generation
 * and has shown nothing yet. Pure; all zero at first. One thread.
 */
struct sbx_readiness {
    bool has_proven;
    unsigned int proven; /* the generation that has */
};

enum sbx_readiness_step {
    SBX_READINESS_WAIT,  /* not serving, and nobody is there that could be tried */
    SBX_READINESS_PROVE, /* not serving until a run has shown that it works */
    SBX_READINESS_SERVE,
};

enum sbx_readiness_step sbx_readiness_next(const struct sbx_readiness *readiness, bool is_up,
                                           unsigned int generation);

/*
 * A run that was begun in generation `begun` has ended, in generation `now`:
 * what it says of a backend that is not there any more says nothing. Returns
 * true when it makes the front serve.
 */
bool sbx_readiness_conclude(struct sbx_readiness *readiness, unsigned int begun, unsigned int now,
                            bool is_ok);
