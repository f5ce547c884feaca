/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/verify/level.h"

#include "common/auto.h"

#include <stdio.h>
#include <string.h>

#define LEVEL(name) CRISOL__AGENT__V1__VERIFICATION_LEVEL__VERIFICATION_LEVEL_##name
#define OUTCOME(name) CRISOL__AGENT__V1__CHECK_OUTCOME__CHECK_OUTCOME_##name

static const struct {
    const char *name;
    const char *shows;
    const char *does_not_stop;
    const char *spanish; /* the last one */
} levels[] = {
    [LEVEL(UNSPECIFIED)] = {"UNSPECIFIED", "", "", ""},
    [LEVEL(OFF)] = {"OFF", "The exit status measured outside the sandbox is 0.",
                    "Anything that exits with 0: tests that do not run, are skipped or fail.",
                    "Todo lo que termina con 0: pruebas que no se ejecutan, se omiten o fallan."},
    [LEVEL(EVIDENCE)] =
        {"EVIDENCE",
         "The test runner reported at least one test, all passed and none skipped, and the exit "
         "status measured outside the sandbox is 0.",
         "Tests that prove nothing, and code that forges the report from inside the test process.",
         "Pruebas que no demuestran nada y código que falsifica el informe desde el proceso de "
         "pruebas."},
    [LEVEL(CANARY)] =
        {"CANARY",
         "All tests passed, exit status and report agree, and a test that must fail, added under "
         "a random name, did fail when everything was run again.",
         "Tests that prove nothing, and code that forges only what it is sure of from inside the "
         "test process.",
         "Pruebas que no demuestran nada y código que falsifica desde el proceso de pruebas solo "
         "aquello de lo que está seguro."},
    [LEVEL(STUBS)] =
        {"STUBS",
         "All tests passed, a test that must fail did fail, and the same tests fail when every "
         "function of solution.py raises and when every one returns None.",
         "Tests that look at a part of the results only, an answer written for just these tests, "
         "and code that finds out which run is which from inside the test process.",
         "Pruebas que solo miran una parte de los resultados, una respuesta escrita para justo "
         "estas pruebas y código que averigua desde el proceso de pruebas qué ejecución es cuál."},
    [LEVEL(MUTANTS)] =
        {"MUTANTS",
         "All tests passed, a test that must fail did fail, the same tests fail when the functions "
         "of solution.py are emptied, and they noticed at least half of the small changes that "
         "were made to it, one at a time.",
         "Wrong behaviour that no test asks for, an answer written for just these tests, and code "
         "that finds out which run is which from inside the test process.",
         "Un comportamiento erróneo por el que ninguna prueba pregunta, una respuesta escrita para "
         "justo estas pruebas y código que averigua desde el proceso de pruebas qué ejecución es "
         "cuál."},
    [LEVEL(ORACLE)] =
        {"ORACLE",
         "All tests passed, the checks of the levels before say that they mean something, and "
         "every case of the task, which neither the model nor the sandbox knows the answer of, "
         "gave what is expected when it was compared outside the sandbox.",
         "Wrong behaviour that no case asks for.",
         "Un comportamiento erróneo por el que ningún caso pregunta."},
};

static bool is_known(Crisol__Agent__V1__VerificationLevel level)
{
    return (unsigned)level < CR_ARRAY_SIZE(levels);
}

const char *agt_level_name(Crisol__Agent__V1__VerificationLevel level)
{
    return is_known(level) ? levels[level].name : "?";
}

const char *agt_level_shows(Crisol__Agent__V1__VerificationLevel level)
{
    return is_known(level) ? levels[level].shows : "";
}

const char *agt_level_does_not_stop(Crisol__Agent__V1__VerificationLevel level)
{
    return is_known(level) ? levels[level].does_not_stop : "";
}

const char *agt_level_does_not_stop_spanish(Crisol__Agent__V1__VerificationLevel level)
{
    return is_known(level) ? levels[level].spanish : "";
}

static bool is_reached(const struct agt_verification *verification,
                       Crisol__Agent__V1__VerificationLevel level)
{
    size_t count = 0;

    for (size_t i = 0; i < verification->check_count; i++) {
        const struct agt_check_result *check = &verification->checks[i];

        if (check->level != level || check->is_part)
            continue;
        if (check->outcome != OUTCOME(SHOWN))
            return false;
        count++;
    }
    return count > 0;
}

/* The check that keeps the next level from counting because it does not apply, or NULL. */
static const struct agt_check_result *find_inapplicable(const struct agt_verification *verification)
{
    for (size_t i = 0; i < verification->check_count; i++) {
        if (verification->checks[i].outcome == OUTCOME(NOT_APPLICABLE) &&
            !verification->checks[i].is_part)
            return &verification->checks[i];
    }
    return NULL;
}

/* True when every check showed what it is meant to, or does not apply. */
static bool has_no_gap(const struct agt_verification *verification)
{
    for (size_t i = 0; i < verification->check_count; i++) {
        const struct agt_check_result *check = &verification->checks[i];

        if (!check->is_part && check->outcome != OUTCOME(SHOWN) &&
            check->outcome != OUTCOME(NOT_APPLICABLE))
            return false;
    }
    return true;
}

void agt_verification_conclude(struct agt_verification *verification)
{
    const struct agt_check_result *check = find_inapplicable(verification);
    Crisol__Agent__V1__VerificationLevel level = LEVEL(EVIDENCE);

    if (verification->requested < level)
        level = verification->requested;
    while (level < verification->requested && is_reached(verification, level + 1))
        level++;
    /* Its cases do not lean on the tests: a level that has nothing to work on is no gap below it.
     */
    if (verification->requested == LEVEL(ORACLE) && is_reached(verification, LEVEL(ORACLE)) &&
        has_no_gap(verification))
        level = LEVEL(ORACLE);
    verification->level = level;
    (void)snprintf(verification->shows, sizeof(verification->shows), "%s%s%s%s%s%s",
                   agt_level_shows(level), check ? " Level " : "",
                   check ? agt_level_name(check->level) : "", check ? " does not apply: " : "",
                   check ? check->summary : "", check ? "." : "");
    (void)snprintf(verification->does_not_stop, sizeof(verification->does_not_stop), "%s",
                   agt_level_does_not_stop(level));
}

void agt_check_fill(struct agt_check_result *check, Crisol__Agent__V1__VerificationCheck *message)
{
    static const Crisol__Agent__V1__VerificationCheck blank =
        CRISOL__AGENT__V1__VERIFICATION_CHECK__INIT;

    *message = blank;
    message->level = check->level;
    message->name = check->name;
    message->outcome = check->outcome;
    message->summary = check->summary;
    message->wall_ms = check->wall_ms;
}

void agt_verification_fill(struct agt_verification *verification,
                           struct agt_verification_message *message)
{
    static const Crisol__Agent__V1__Verification blank = CRISOL__AGENT__V1__VERIFICATION__INIT;

    message->base = blank;
    message->base.level = verification->level;
    message->base.level_requested = verification->requested;
    message->base.shows = verification->shows;
    message->base.does_not_stop = verification->does_not_stop;
    for (size_t i = 0; i < verification->check_count; i++) {
        agt_check_fill(&verification->checks[i], &message->checks[i]);
        message->list[i] = &message->checks[i];
    }
    message->base.checks = message->list;
    message->base.n_checks = verification->check_count;
}
