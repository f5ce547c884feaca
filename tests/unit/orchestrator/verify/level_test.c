/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/verify/level.h"
#include "tests/harness/test.h"

#include <string.h>

#define LEVEL(name) CRISOL__AGENT__V1__VERIFICATION_LEVEL__VERIFICATION_LEVEL_##name
#define OUTCOME(name) CRISOL__AGENT__V1__CHECK_OUTCOME__CHECK_OUTCOME_##name

static void every_level_says_what_it_shows_and_what_not(void **state)
{
    (void)state;
    for (Crisol__Agent__V1__VerificationLevel level = LEVEL(OFF); level <= AGT_LEVEL_MAX; level++) {
        assert_true(strlen(agt_level_name(level)) > 1);
        assert_true(strlen(agt_level_shows(level)) > 20);
        assert_true(strlen(agt_level_does_not_stop(level)) > 20);
        assert_true(strlen(agt_level_does_not_stop_spanish(level)) > 20);
    }
    assert_string_equal(agt_level_name((Crisol__Agent__V1__VerificationLevel)99), "?");
}

static void level_counts_only_with_all_its_checks(void **state)
{
    static const struct {
        Crisol__Agent__V1__CheckOutcome canary;
        Crisol__Agent__V1__CheckOutcome stub;
        Crisol__Agent__V1__VerificationLevel level;
    } cases[] = {
        {OUTCOME(SHOWN), OUTCOME(SHOWN), LEVEL(STUBS)},
        {OUTCOME(SHOWN), OUTCOME(NOT_APPLICABLE), LEVEL(CANARY)},
        {OUTCOME(SHOWN), OUTCOME(REFUTED), LEVEL(CANARY)},
        {OUTCOME(SHOWN), OUTCOME(UNSPECIFIED), LEVEL(CANARY)},
        {OUTCOME(UNSPECIFIED), OUTCOME(SHOWN), LEVEL(EVIDENCE)},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct agt_verification verification = {
            .requested = LEVEL(STUBS),
            .checks = {{.level = LEVEL(CANARY), .outcome = cases[i].canary},
                       {.level = LEVEL(STUBS), .outcome = OUTCOME(SHOWN)},
                       {.level = LEVEL(STUBS), .outcome = cases[i].stub, .summary = "no reason"}},
            .check_count = 3,
        };

        agt_verification_conclude(&verification);
        assert_int_equal(verification.level, cases[i].level);
        assert_int_equal(strstr(verification.shows, "STUBS does not apply: no reason.") != NULL,
                         cases[i].stub == OUTCOME(NOT_APPLICABLE));
    }
}

static void without_checks_no_more_than_evidence_is_claimed(void **state)
{
    struct agt_verification verification = {.requested = LEVEL(STUBS)};

    (void)state;
    agt_verification_conclude(&verification);
    assert_int_equal(verification.level, LEVEL(EVIDENCE));
    verification.requested = LEVEL(OFF);
    agt_verification_conclude(&verification);
    assert_int_equal(verification.level, LEVEL(OFF));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_level_says_what_it_shows_and_what_not),
        cmocka_unit_test(level_counts_only_with_all_its_checks),
        cmocka_unit_test(without_checks_no_more_than_evidence_is_claimed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
