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
#include <stdint.h>
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
#define SEED_PART 16

/*
 * Letters alone: code that has read this program finds nothing in a name to
 * tell it by. Older programs put `older` before the digits.
 */
static void make_name(const struct agt_check_plan *plan, char *name, size_t size,
                      const char *needed, const char *older, const char *part)
{
    char letters[SEED_PART + 1] = "";

    if (plan->has_older_names) {
        (void)snprintf(name, size, "%s%s%.*s", needed, older, SEED_PART, part);
        return;
    }
    for (size_t i = 0; i < SEED_PART; i++)
        letters[i] = (char)(part[i] <= '9' ? part[i] - '0' + 'a' : part[i] - 'a' + 'k');
    (void)snprintf(name, size, "%s%s", needed, letters);
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

static int add_canary(const char *tests, struct agt_check_plan *plan, char **ret_text)
{
    CR_AUTO_BUF struct cr_buf text = {0};

    cr_buf_init(&text, WRITTEN_MAX);
    if (agt_canary_add(tests, plan->name, plan->text, &text) == 0)
        *ret_text = cr_buf_take_str(&text);
    plan->canaries++;
    return *ret_text ? 0 : -ENOMEM;
}

/* What a file says of every test in it (parametrize, a fixture, which are none) may not fit one
 * that is added, which would then fail in another way, or twice, or not be found. */
static bool may_have_canary(const char *acceptance_tests)
{
    static const char *const words[] = {"pytestmark", "pytest_generate_tests", "autouse",
                                        "setup_function", "__test__"};

    for (size_t i = 0; i < CR_ARRAY_SIZE(words); i++) {
        if (strstr(acceptance_tests, words[i]))
            return false;
    }
    return true;
}

/* In the tests of the task, too: a runner that only leaves those out would not be seen else. */
static int plan_canary(const struct agt_files *files, struct agt_check_plan *plan)
{
    size_t index = add_check(plan, LEVEL(CANARY), OUTCOME(UNSPECIFIED), "canary");
    size_t count = plan->terms && !plan->has_one_canary ? plan->terms->n_acceptance_tests : 0;
    int r;

    plan->files[index].kind = AGT_CHECK_CANARY;
    make_name(plan, plan->name, sizeof(plan->name), "test_", "crisol_", plan->seed);
    make_name(plan, plan->text, sizeof(plan->text), "", "must-fail-", plan->seed + SEED_PART);
    r = add_canary(files->tests, plan, &plan->files[index].tests);
    for (size_t i = 0; r == 0 && i < count; i++) {
        const char *tests = plan->terms->acceptance_tests[i]->text;

        if (may_have_canary(tests))
            r = add_canary(tests, plan, &plan->acceptance[i]);
    }
    return r;
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

#define UNITS_MAX (1 + AGT_MORE_FILES_MAX)
#define IS_SOLUTION SIZE_MAX

/* The Python files of an attempt but its tests: solution.py first. */
struct units {
    struct unit {
        const char *path;
        size_t more; /* index of the further file, or IS_SOLUTION */
        struct source source;
    } list[UNITS_MAX];

    size_t count;
};

static void units_done(struct units *units)
{
    for (size_t i = 0; i < units->count; i++)
        source_done(&units->list[i].source);
}

#define AUTO_UNITS __attribute__((cleanup(units_done)))

/* On failure *ret_path is the file that could not be read. */
static int read_units(const struct agt_files *files, struct units *units, const char **ret_path,
                      struct cr_err *err)
{
    int r;

    units->list[0] = (struct unit){.path = AGT_SOLUTION_NAME, .more = IS_SOLUTION};
    units->count = 1;
    *ret_path = AGT_SOLUTION_NAME;
    r = read_source(files->solution, &units->list[0].source, err);
    for (size_t i = 0; r == 0 && i < files->more_count; i++) {
        struct unit *unit = &units->list[units->count];

        if (!agt_files_is_python(files->more[i].path))
            continue;
        *unit = (struct unit){.path = files->more[i].path, .more = i};
        units->count++;
        *ret_path = unit->path;
        r = read_source(files->more[i].text, &unit->source, err);
    }
    return r;
}

/* What a sentence calls them. */
static const char *name_of(const struct units *units)
{
    return units->count == 1 ? AGT_SOLUTION_NAME : "the solution's files";
}

/* What the check runs in place of that file. Takes the text. */
static int replace(struct agt_check_plan *plan, size_t index, const struct unit *unit,
                   struct cr_buf *text)
{
    struct agt_check_files *files = &plan->files[index];
    char **slot = &files->solution;

    if (unit->more != IS_SOLUTION) {
        if (!files->more)
            files->more = calloc(AGT_MORE_FILES_MAX, sizeof(*files->more));
        if (!files->more)
            return -ENOMEM;
        slot = &files->more[unit->more];
    }
    *slot = cr_buf_take_str(text);
    return *slot ? 0 : -ENOMEM;
}

static void plan_equality(const struct units *units, struct agt_check_plan *plan)
{
    const char *path = NULL;
    unsigned line = 0;
    size_t index;

    for (size_t i = 0; line == 0 && i < units->count; i++) {
        path = units->list[i].path;
        line = agt_lint_always_equal(&units->list[i].source.tokens, &units->list[i].source.outline);
    }
    index = add_check(plan, LEVEL(STUBS), line > 0 ? OUTCOME(REFUTED) : OUTCOME(SHOWN), "equality");
    if (line > 0)
        say(plan, index, "line %u of %s makes an object that is equal to everything", line, path);
    else
        say(plan, index, "no object of %s is equal to everything", name_of(units));
}

/* Empties one file; adds to *count how many functions were. -ENOSPC: it would grow too large. */
static int stub_unit(const struct unit *unit, enum agt_stub_kind kind, const char *mark,
                     size_t index, struct agt_check_plan *plan, size_t *count)
{
    CR_AUTO_BUF struct cr_buf text = {0};
    size_t emptied = 0;
    int r;

    cr_buf_init(&text, WRITTEN_MAX);
    r = agt_stub_add(&unit->source.tokens, &unit->source.outline, kind, mark, &text, &emptied);
    *count += r == 0 ? emptied : 0;
    return r == 0 && emptied > 0 ? replace(plan, index, unit, &text) : r;
}

static const char *stub_effect(const struct units *units, enum agt_stub_kind kind)
{
    if (units->count == 1)
        return kind == AGT_STUB_RAISE ? "every function of solution.py raises"
                                      : "every function of solution.py returns None";
    return kind == AGT_STUB_RAISE ? "every function of the solution's files raises"
                                  : "every function of the solution's files returns None";
}

static int plan_stub(const struct units *units, enum agt_stub_kind kind,
                     struct agt_check_plan *plan)
{
    char mark[40];
    size_t count = 0;
    size_t index;
    int r = 0;

    make_name(plan, mark, sizeof(mark), "", "crisol_", plan->seed + (size_t)2 * SEED_PART);
    index = add_check(plan, LEVEL(STUBS), OUTCOME(UNSPECIFIED),
                      kind == AGT_STUB_RAISE ? "stubs that raise" : "stubs that return None");
    plan->files[index].kind = AGT_CHECK_STUB;
    plan->files[index].what = stub_effect(units, kind);
    for (size_t i = 0; r == 0 && i < units->count; i++)
        r = stub_unit(&units->list[i], kind, mark, index, plan, &count);
    if (r == -ENOMEM)
        return r;
    if (r == 0 && count > 0)
        return 0;
    plan->verification->checks[index].outcome = OUTCOME(NOT_APPLICABLE);
    if (r < 0)
        say(plan, index, "%s would grow too large", name_of(units));
    else
        say(plan, index, "%s ha%s no function that does anything", name_of(units),
            units->count == 1 ? "s" : "ve");
    return 0;
}

/* Source that passes its tests and that we cannot read: nothing is shown, nothing is refused. */
static void plan_unreadable(const char *path, const struct cr_err *err, struct agt_check_plan *plan)
{
    size_t index = add_check(plan, LEVEL(STUBS), OUTCOME(NOT_APPLICABLE), "stubs");

    say(plan, index, "%s could not be read (%.180s)", path, err->text);
}

static int plan_mutant(const struct unit *unit, const struct agt_mutant *mutant,
                       struct agt_check_plan *plan)
{
    CR_AUTO_BUF struct cr_buf text = {0};
    bool is_solution = unit->more == IS_SOLUTION;
    size_t index;
    int r;

    cr_buf_init(&text, WRITTEN_MAX);
    r = agt_mutant_add(&unit->source.tokens, mutant, &text);
    if (r < 0)
        return -ENOMEM;
    index = add_check(
        plan, LEVEL(MUTANTS), OUTCOME(UNSPECIFIED), "mutant: %.30s%sline %u, '%s' %s%s%s",
        is_solution ? "" : unit->path, is_solution ? "" : " ", mutant->line, mutant->before,
        mutant->after[0] ? "becomes '" : "is left out", mutant->after, mutant->after[0] ? "'" : "");
    plan->verification->checks[index].is_part = true;
    plan->files[index].kind = AGT_CHECK_MUTANT;
    return replace(plan, index, unit, &text);
}

/* Shares the changes out, one for each file in turn, as far as a file has any. */
static size_t share_out(const struct units *units, size_t shares[UNITS_MAX])
{
    struct agt_mutant mutants[AGT_MUTANTS_MAX];
    size_t there[UNITS_MAX];
    size_t given = 0;
    bool has_more = true;

    for (size_t i = 0; i < units->count; i++) {
        shares[i] = 0;
        there[i] = agt_mutants_choose(&units->list[i].source.tokens, &units->list[i].source.outline,
                                      mutants, AGT_MUTANTS_MAX);
    }
    while (has_more) {
        has_more = false;
        for (size_t i = 0; i < units->count && given < AGT_MUTANTS_MAX; i++) {
            if (shares[i] == there[i])
                continue;
            shares[i]++;
            given++;
            has_more = true;
        }
    }
    return given;
}

static int plan_unit_mutants(const struct unit *unit, size_t share, struct agt_check_plan *plan)
{
    struct agt_mutant mutants[AGT_MUTANTS_MAX];
    size_t count;
    int r = 0;

    count = agt_mutants_choose(&unit->source.tokens, &unit->source.outline, mutants, share);
    for (size_t i = 0; r == 0 && i < count; i++)
        r = plan_mutant(unit, &mutants[i], plan);
    return r;
}

static int plan_mutants(const struct units *units, struct agt_check_plan *plan)
{
    size_t shares[UNITS_MAX];
    size_t count = share_out(units, shares);
    size_t index;
    int r = 0;

    for (size_t i = 0; r == 0 && i < units->count; i++)
        r = shares[i] > 0 ? plan_unit_mutants(&units->list[i], shares[i], plan) : 0;
    index = add_check(plan, LEVEL(MUTANTS),
                      count > 0 ? OUTCOME(UNSPECIFIED) : OUTCOME(NOT_APPLICABLE), "mutants");
    plan->files[index].kind = AGT_CHECK_MUTANTS;
    if (count == 0)
        say(plan, index, "no function of %s has anything that a small change could be made to",
            name_of(units));
    return r;
}

/* What the tests name of the solution is data, and no function that is emptied. */
static bool are_about_data(const struct units *units, const struct agt_py_tokens *tests)
{
    bool has_data = false;

    for (size_t i = 0; i < units->count; i++) {
        const struct source *source = &units->list[i].source;

        if (agt_stub_is_under_test(&source->tokens, &source->outline, tests))
            return false;
        has_data |= agt_stub_has_data_under_test(&source->tokens, &source->outline, tests);
    }
    return has_data;
}

static int plan_stubs(const struct agt_files *files, Crisol__Agent__V1__VerificationLevel level,
                      struct agt_check_plan *plan)
{
    AUTO_UNITS struct units units = {.count = 0};
    AUTO_SOURCE struct source tests = {.tokens = {.text = NULL}};
    struct cr_err err = CR_ERR_INIT;
    const char *path;
    int r;

    r = read_units(files, &units, &path, &err);
    if (r == -EINVAL) {
        plan_unreadable(path, &err, plan);
        return 0;
    }
    if (r == 0)
        r = read_source(files->tests, &tests, NULL);
    if (r == -ENOMEM)
        return r;
    plan->tests_only_data = r == 0 && are_about_data(&units, &tests.tokens);
    plan_equality(&units, plan);
    r = plan_stub(&units, AGT_STUB_RAISE, plan);
    if (r == 0)
        r = plan_stub(&units, AGT_STUB_NONE, plan);
    return r == 0 && level >= LEVEL(MUTANTS) ? plan_mutants(&units, plan) : r;
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

    make_name(plan, plan->mark, sizeof(plan->mark), "", "crisol_",
              plan->seed + (size_t)2 * SEED_PART);
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
        for (size_t k = 0; plan->files[i].more && k < AGT_MORE_FILES_MAX; k++)
            free(plan->files[i].more[k]);
        free(plan->files[i].more);
    }
    for (size_t i = 0; i < AGT_TERMS_ACCEPTANCE_MAX; i++)
        free(plan->acceptance[i]);
    free(plan->verification);
    free(plan->questions);
    *plan = (struct agt_check_plan){.verification = NULL};
}
