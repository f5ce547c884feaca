/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "orchestrator/verify/level.h"

/* The small changes of a solution that have come out, which are the parts of level MUTANTS. */
struct agt_mutant_score {
    uint32_t noticed;
    uint32_t unnoticed;
    uint32_t open;
    uint64_t wall_ms;
    char lines[160]; /* of those that were not noticed: "line 3, '<' becomes '>='; …" */
};

void agt_mutant_score(const struct agt_verification *verification, struct agt_mutant_score *score);

/*
 * Judges what counts them, once none is open: half of them have to be noticed.
 * More cannot be asked for, since some do the same as the original; and nothing
 * is refuted by one alone. Fills in
 * outcome and summary. Pure.
 */
void agt_mutant_score_judge(const struct agt_mutant_score *score, bool tests_only_data,
                            struct agt_check_result *result);
