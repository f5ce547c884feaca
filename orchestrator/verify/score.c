/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/verify/score.h"

#include "common/utf8.h"

#include <stdio.h>
#include <string.h>

#define LEVEL(name) CRISOL__AGENT__V1__VERIFICATION_LEVEL__VERIFICATION_LEVEL_##name
#define OUTCOME(name) CRISOL__AGENT__V1__CHECK_OUTCOME__CHECK_OUTCOME_##name

/* One alone may well do the same as the original. */
#define CHANGES_MIN 2

/* "mutant: line 3, …" without its first word. */
static const char *place_of(const struct agt_check_result *check)
{
    const char *space = strchr(check->name, ' ');

    return space ? space + 1 : check->name;
}

void agt_mutant_score(const struct agt_verification *verification, struct agt_mutant_score *score)
{
    *score = (struct agt_mutant_score){.noticed = 0};
    for (size_t i = 0; i < verification->check_count; i++) {
        const struct agt_check_result *check = &verification->checks[i];
        size_t used = strlen(score->lines);

        if (check->level != LEVEL(MUTANTS) || !check->is_part)
            continue;
        score->wall_ms += check->wall_ms;
        score->open += check->outcome == OUTCOME(UNSPECIFIED);
        score->noticed += check->outcome == OUTCOME(SHOWN);
        if (check->outcome != OUTCOME(UNNOTICED))
            continue;
        score->unnoticed++;
        (void)snprintf(score->lines + used, sizeof(score->lines) - used, "%s%s", used ? "; " : "",
                       place_of(check));
    }
}

void agt_mutant_score_judge(const struct agt_mutant_score *score, bool tests_only_data,
                            struct agt_check_result *result)
{
    uint32_t count = score->noticed + score->unnoticed;

    (void)snprintf(result->summary, sizeof(result->summary),
                   "%u of %u small changes of solution.py made a test fail%s%s", score->noticed,
                   count, score->unnoticed ? "; all tests pass with: " : "", score->lines);
    /* What a change takes out may be a text in any language. */
    result->summary[cr_utf8_complete_prefix(result->summary, strlen(result->summary))] = '\0';
    if (count > 0 && 2 * score->noticed >= count) {
        result->outcome = OUTCOME(SHOWN);
    } else if (count < CHANGES_MIN || tests_only_data) {
        result->outcome = OUTCOME(NOT_APPLICABLE);
        (void)snprintf(result->summary, sizeof(result->summary), "%s",
                       count < CHANGES_MIN
                           ? "too few small changes of solution.py could be made to tell"
                           : "the tests are about data of solution.py, not about its functions");
    } else {
        result->outcome = OUTCOME(REFUTED);
    }
}
