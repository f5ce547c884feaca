/* SPDX-License-Identifier: Apache-2.0 */
#include "common/utf8.h"
#include "orchestrator/verify/score.h"
#include "tests/harness/test.h"

#include <stdio.h>
#include <string.h>

#define LEVEL(name) CRISOL__AGENT__V1__VERIFICATION_LEVEL__VERIFICATION_LEVEL_##name
#define OUTCOME(name) CRISOL__AGENT__V1__CHECK_OUTCOME__CHECK_OUTCOME_##name

static void add(struct agt_verification *verification, Crisol__Agent__V1__CheckOutcome outcome)
{
    struct agt_check_result *check = &verification->checks[verification->check_count++];

    *check = (struct agt_check_result){
        .level = LEVEL(MUTANTS), .outcome = outcome, .is_part = true, .wall_ms = 10};
    (void)snprintf(check->name, sizeof(check->name), "mutant: line %zu, '<' becomes '>='",
                   verification->check_count);
}

static void half_of_the_changes_have_to_be_noticed(void **state)
{
    /* N: noticed, U: not, X: not applicable */
    static const struct {
        const char *parts;
        bool tests_only_data;
        Crisol__Agent__V1__CheckOutcome outcome;
        const char *summary;
    } cases[] = {
        {"N", false, OUTCOME(SHOWN), "1 of 1 small changes of solution.py made a test fail"},
        {"NUUN", false, OUTCOME(SHOWN), "all tests pass with: line 2, '<' becomes '>='; line 3"},
        {"NUU", false, OUTCOME(REFUTED), "1 of 3"},
        {"UU", false, OUTCOME(REFUTED), "0 of 2"},
        {"UX", false, OUTCOME(NOT_APPLICABLE), "too few"},
        {"NUUX", true, OUTCOME(NOT_APPLICABLE), "data of solution.py"},
        {"NXX", false, OUTCOME(SHOWN), "1 of 1"},
        {"XX", false, OUTCOME(NOT_APPLICABLE), "too few"},
        {"", false, OUTCOME(NOT_APPLICABLE), "too few"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct agt_verification verification = {.check_count = 0};
        struct agt_check_result result = {.outcome = OUTCOME(UNSPECIFIED)};
        struct agt_mutant_score score;

        for (const char *part = cases[i].parts; *part; part++)
            add(&verification, *part == 'N'   ? OUTCOME(SHOWN)
                               : *part == 'U' ? OUTCOME(UNNOTICED)
                                              : OUTCOME(NOT_APPLICABLE));
        agt_mutant_score(&verification, &score);
        assert_int_equal(score.wall_ms, 10 * strlen(cases[i].parts));
        assert_int_equal(score.open, 0);
        agt_mutant_score_judge(&score, cases[i].tests_only_data, &result);
        assert_int_equal(result.outcome, cases[i].outcome);
        assert_non_null(strstr(result.summary, cases[i].summary));
    }
}

static void texts_in_any_language_stay_utf8(void **state)
{
    (void)state;
    for (size_t extra = 0; extra < 30; extra++) {
        struct agt_verification verification = {.check_count = 0};
        struct agt_check_result result = {.outcome = OUTCOME(UNSPECIFIED)};
        struct agt_mutant_score score;

        for (size_t i = 0; i < 8; i++) {
            add(&verification, OUTCOME(UNNOTICED));
            (void)snprintf(
                verification.checks[i].name, sizeof(verification.checks[i].name),
                "mutant: %.*sline 1, '\u00f1\u00f1\u00f1\u00f1\u00f1\u00f1' becomes '\"\"'",
                (int)extra, "a/long/path/of/a/further/file/");
        }
        agt_mutant_score(&verification, &score);
        agt_mutant_score_judge(&score, false, &result);
        assert_int_equal(result.outcome, OUTCOME(REFUTED));
        assert_true(cr_utf8_is_valid(result.summary, strlen(result.summary)));
    }
}

static void parts_do_not_count_for_the_level(void **state)
{
    struct agt_verification verification = {
        .requested = LEVEL(MUTANTS),
        .checks = {{.level = LEVEL(CANARY), .outcome = OUTCOME(SHOWN)},
                   {.level = LEVEL(STUBS), .outcome = OUTCOME(SHOWN)}},
        .check_count = 2,
    };

    (void)state;
    add(&verification, OUTCOME(UNNOTICED));
    add(&verification, OUTCOME(NOT_APPLICABLE));
    agt_verification_conclude(&verification);
    assert_int_equal(verification.level, LEVEL(STUBS));
    add(&verification, OUTCOME(SHOWN));
    verification.checks[verification.check_count - 1].is_part = false;
    agt_verification_conclude(&verification);
    assert_int_equal(verification.level, LEVEL(MUTANTS));
    assert_null(strstr(verification.shows, "does not apply"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(half_of_the_changes_have_to_be_noticed),
        cmocka_unit_test(texts_in_any_language_stay_utf8),
        cmocka_unit_test(parts_do_not_count_for_the_level),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
