/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/graph/check_plan.h"

#include "common/auto.h"
#include "common/buf.h"
#include "common/err.h"
#include "orchestrator/verify/lint.h"
#include "orchestrator/verify/mutants.h"
#include "orchestrator/verify/oracle.h"
#include "orchestrator/verify/rewrite.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LEVEL(name) CRISOL__AGENT__V1__VERIFICATION_LEVEL__VERIFICATION_LEVEL_##name
#define OUTCOME(name) CRISOL__AGENT__V1__CHECK_OUTCOME__CHECK_OUTCOME_##name

/* A guard of 100 bytes for each function of 12 ("def f():x=1\n") is the most that a file grows. */
#define WRITTEN_MAX ((size_t)16 * AGT_FILE_MAX)

/* All cases that terms may have, each byte as an escape of six. */
#define QUESTIONS_MAX ((size_t)8 * 1048576)

/* Of the plan's seed, each name has a part of its own. */
static void make_name(char *name, size_t size, const char *prefix, const char *part)
{
    (void)snprintf(name, size, "%s%.16s", prefix, part);
}

/* Adds a check; its files are those of the attempt so far. */
__attribute__((format(printf, 4, 5))) static size_t
add_check(struct agt_check_plan *plan, Crisol__Agent__V1__VerificationLevel level,
          Crisol__Agent__V1__CheckOutcome outcome, const char *format, ...)
{
    size_t index = plan->verification->check_count++;
    struct agt_check_result *result = &plan->verification->checks[index];
    va_list args;

    result->level = level;
    result->outcome = outcome;
    va_start(args, format);
    (void)vsnprintf(result->name, sizeof(result->name), format, args);
    va_end(args);
    return index;
}

__attribute__((format(printf, 3, 4))) static void say(struct agt_check_plan *plan, size_t index,
                                                      const char *format, ...)
{
    struct agt_check_result *result = &plan->verification->checks[index];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(result->summary, sizeof(result->summary), format, args);
    va_end(args);
}

static int plan_canary(const struct agt_files *files, struct agt_check_plan *plan)
{
    CR_AUTO_BUF struct cr_buf text = {0};
    size_t index = add_check(plan, LEVEL(CANARY), OUTCOME(UNSPECIFIED), "canary");
    int r;

    plan->files[index].kind = AGT_CHECK_CANARY;
    make_name(plan->name, sizeof(plan->name), "test_crisol_", plan->seed);
    make_name(plan->text, sizeof(plan->text), "must-fail-", plan->seed + 16);
    cr_buf_init(&text, WRITTEN_MAX);
    r = agt_canary_add(files->tests, plan->name, plan->text, &text);
    if (r == 0)
        plan->files[index].tests = cr_buf_take_str(&text);
    return plan->files[index].tests ? 0 : -ENOMEM;
}

/* Source as tokens, and its definitions. */
struct source {
    struct agt_py_tokens tokens;
    struct agt_py_outline outline;
};

static void source_done(struct source *source)
{
    agt_py_outline_done(&source->outline);
    agt_py_tokens_done(&source->tokens);
}

#define AUTO_SOURCE __attribute__((cleanup(source_done)))

static int read_source(const char *text, struct source *source, struct cr_err *err)
{
    int r = agt_py_scan(text, strlen(text), &source->tokens, err);

    return r == 0 ? agt_py_outline(&source->tokens, &source->outline) : r;
}

static void plan_equality(const struct source *solution, struct agt_check_plan *plan)
{
    unsigned line = agt_lint_always_equal(&solution->tokens, &solution->outline);
    size_t index =
        add_check(plan, LEVEL(STUBS), line > 0 ? OUTCOME(REFUTED) : OUTCOME(SHOWN), "equality");

    if (line > 0)
        say(plan, index, "line %u of solution.py makes an object that is equal to everything",
            line);
    else
        say(plan, index, "no object of solution.py is equal to everything");
}

static int plan_stub(const struct source *solution, enum agt_stub_kind kind,
                     struct agt_check_plan *plan)
{
    CR_AUTO_BUF struct cr_buf text = {0};
    char mark[40];
    size_t count = 0;
    size_t index;
    int r;

    make_name(mark, sizeof(mark), "crisol_", plan->seed + 32);
    cr_buf_init(&text, WRITTEN_MAX);
    r = agt_stub_add(&solution->tokens, &solution->outline, kind, mark, &text, &count);
    if (r == -ENOMEM)
        return r;
    index = add_check(plan, LEVEL(STUBS),
                      r == 0 && count > 0 ? OUTCOME(UNSPECIFIED) : OUTCOME(NOT_APPLICABLE),
                      kind == AGT_STUB_RAISE ? "stubs that raise" : "stubs that return None");
    plan->files[index].kind = AGT_CHECK_STUB;
    plan->files[index].what = kind == AGT_STUB_RAISE ? "every function of solution.py raises"
                                                     : "every function of solution.py returns None";
    if (r < 0)
        say(plan, index, "solution.py would grow too large");
    else if (count == 0)
        say(plan, index, "solution.py has no function that does anything");
    else
        plan->files[index].solution = cr_buf_take_str(&text);
    return r < 0 || count == 0 || plan->files[index].solution ? 0 : -ENOMEM;
}

/* Source that passes its tests and that we cannot read: nothing is shown, nothing is refused. */
static void plan_unreadable(const struct cr_err *err, struct agt_check_plan *plan)
{
    size_t index = add_check(plan, LEVEL(STUBS), OUTCOME(NOT_APPLICABLE), "stubs");

    say(plan, index, "solution.py could not be read (%.200s)", err->text);
}

static int plan_mutant(const struct source *solution, const struct agt_mutant *mutant,
                       struct agt_check_plan *plan)
{
    CR_AUTO_BUF struct cr_buf text = {0};
    size_t index;
    int r;

    cr_buf_init(&text, WRITTEN_MAX);
    r = agt_mutant_add(&solution->tokens, mutant, &text);
    if (r < 0)
        return -ENOMEM;
    index = add_check(plan, LEVEL(MUTANTS), OUTCOME(UNSPECIFIED), "mutant: line %u, '%s' %s%s%s",
                      mutant->line, mutant->before, mutant->after[0] ? "becomes '" : "is left out",
                      mutant->after, mutant->after[0] ? "'" : "");
    plan->verification->checks[index].is_part = true;
    plan->files[index].kind = AGT_CHECK_MUTANT;
    plan->files[index].solution = cr_buf_take_str(&text);
    return plan->files[index].solution ? 0 : -ENOMEM;
}

static int plan_mutants(const struct source *solution, struct agt_check_plan *plan)
{
    struct agt_mutant mutants[AGT_MUTANTS_MAX];
    size_t count =
        agt_mutants_choose(&solution->tokens, &solution->outline, mutants, AGT_MUTANTS_MAX);
    size_t index;
    int r = 0;

    for (size_t i = 0; r == 0 && i < count; i++)
        r = plan_mutant(solution, &mutants[i], plan);
    index = add_check(plan, LEVEL(MUTANTS),
                      count > 0 ? OUTCOME(UNSPECIFIED) : OUTCOME(NOT_APPLICABLE), "mutants");
    plan->files[index].kind = AGT_CHECK_MUTANTS;
    if (count == 0)
        say(plan, index,
            "no function of solution.py has anything that a small change could be "
            "made to");
    return r;
}

static int plan_stubs(const struct agt_files *files, Crisol__Agent__V1__VerificationLevel level,
                      struct agt_check_plan *plan)
{
    AUTO_SOURCE struct source solution = {.tokens = {.text = NULL}};
    AUTO_SOURCE struct source tests = {.tokens = {.text = NULL}};
    struct cr_err err = CR_ERR_INIT;
    int r;

    r = read_source(files->solution, &solution, &err);
    if (r == -EINVAL) {
        plan_unreadable(&err, plan);
        return 0;
    }
    if (r == 0)
        r = read_source(files->tests, &tests, NULL);
    if (r == -ENOMEM)
        return r;
    plan->tests_only_data =
        r == 0 && !agt_stub_is_under_test(&solution.tokens, &solution.outline, &tests.tokens) &&
        agt_stub_has_data_under_test(&solution.tokens, &solution.outline, &tests.tokens);
    plan_equality(&solution, plan);
    r = plan_stub(&solution, AGT_STUB_RAISE, plan);
    if (r == 0)
        r = plan_stub(&solution, AGT_STUB_NONE, plan);
    return r == 0 && level >= LEVEL(MUTANTS) ? plan_mutants(&solution, plan) : r;
}

static void plan_own(const Crisol__Agent__V1__TaskTerms *terms, struct agt_check_plan *plan)
{
    for (size_t i = 0; terms && i < terms->n_checks; i++) {
        const Crisol__Agent__V1__OwnCheck *own = terms->checks[i];
        size_t index;

        if (own->name[0])
            index = add_check(plan, LEVEL(UNSPECIFIED), OUTCOME(UNSPECIFIED), "own: %s", own->name);
        else
            index =
                add_check(plan, LEVEL(UNSPECIFIED), OUTCOME(UNSPECIFIED), "own: check %zu", i + 1);
        plan->files[index].kind = AGT_CHECK_OWN;
        plan->files[index].own = own;
    }
}

static int plan_oracle(const Crisol__Agent__V1__TaskTerms *terms, struct agt_check_plan *plan)
{
    CR_AUTO_BUF struct cr_buf text = {0};
    size_t index;
    int r;

    make_name(plan->mark, sizeof(plan->mark), "crisol_", plan->seed + 32);
    cr_buf_init(&text, QUESTIONS_MAX);
    r = agt_oracle_add_questions(terms->cases, terms->n_cases, plan->mark, &text);
    if (r < 0)
        return -ENOMEM;
    index = add_check(plan, LEVEL(ORACLE), OUTCOME(UNSPECIFIED), "oracle");
    plan->files[index].kind = AGT_CHECK_ORACLE;
    plan->questions = cr_buf_take_str(&text);
    return plan->questions ? 0 : -ENOMEM;
}

int agt_check_plan_make(const struct agt_files *files, Crisol__Agent__V1__VerificationLevel level,
                        const Crisol__Agent__V1__TaskTerms *terms, struct agt_check_plan *plan)
{
    int r = 0;

    plan->verification = calloc(1, sizeof(*plan->verification));
    if (!plan->verification)
        return -ENOMEM;
    plan->verification->requested = level;
    plan->terms = terms;
    if (level >= LEVEL(CANARY))
        r = plan_canary(files, plan);
    if (r == 0)
        plan_own(terms, plan);
    if (r == 0 && level >= LEVEL(STUBS))
        r = plan_stubs(files, level, plan);
    if (r == 0 && level >= LEVEL(ORACLE) && terms)
        r = plan_oracle(terms, plan);
    return r;
}

void agt_check_plan_done(struct agt_check_plan *plan)
{
    for (size_t i = 0; i < AGT_CHECKS_MAX; i++) {
        free(plan->files[i].solution);
        free(plan->files[i].tests);
    }
    free(plan->verification);
    free(plan->questions);
    *plan = (struct agt_check_plan){.verification = NULL};
}
