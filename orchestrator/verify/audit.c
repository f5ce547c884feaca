/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/verify/audit.h"

#include "common/auto.h"
#include "common/err.h"
#include "common/unconst.h"
#include "orchestrator/verify/outline.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Test functions of one file that are compared by name; further ones are counted only. */
#define NAMES_MAX 1000

struct tests {
    struct agt_py_tokens tokens;
    struct agt_py_outline outline;
    struct agt_test_counts counts;
};

static void tests_done(struct tests *tests)
{
    agt_py_outline_done(&tests->outline);
    agt_py_tokens_done(&tests->tokens);
}

#define AUTO_TESTS __attribute__((cleanup(tests_done)))

static bool starts_with(const struct agt_py_tokens *tokens, size_t index, const char *prefix)
{
    const struct agt_py_token *token = &tokens->items[index];
    size_t size = strlen(prefix);

    return token->kind == AGT_PY_NAME && token->size >= size &&
           memcmp(tokens->text + token->start, prefix, size) == 0;
}

static bool is_test(const struct tests *tests, size_t index)
{
    const struct agt_py_def *def = &tests->outline.items[index];

    return !def->is_class && starts_with(&tests->tokens, def->name, "test");
}

static bool is_one_of(const struct agt_py_tokens *tokens, size_t index, const char *const *names,
                      size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (agt_py_is(tokens, index, names[i]))
            return true;
    }
    return false;
}

static bool is_skip(const struct agt_py_tokens *tokens, size_t index)
{
    static const char *const names[] = {"skip",       "skipif",       "skipIf",
                                        "skipUnless", "skipTest",     "xfail",
                                        "SkipTest",   "importorskip", "expectedFailure"};

    return is_one_of(tokens, index, names, CR_ARRAY_SIZE(names));
}

static bool is_assert(const struct agt_py_tokens *tokens, size_t index)
{
    static const char *const names[] = {"raises", "warns", "fail"};

    return starts_with(tokens, index, "assert") ||
           is_one_of(tokens, index, names, CR_ARRAY_SIZE(names));
}

static bool is_open(const struct agt_py_tokens *tokens, size_t index)
{
    return agt_py_is(tokens, index, "(") || agt_py_is(tokens, index, "[") ||
           agt_py_is(tokens, index, "{");
}

static bool is_close(const struct agt_py_tokens *tokens, size_t index)
{
    return agt_py_is(tokens, index, ")") || agt_py_is(tokens, index, "]") ||
           agt_py_is(tokens, index, "}");
}

/* Items of the lists in parametrize(names, [item, item, …]); `at` is behind the name. */
static uint32_t count_cases(const struct agt_py_tokens *tokens, size_t at)
{
    uint32_t items = 0;
    size_t depth = 0;

    if (!agt_py_is(tokens, at, "("))
        return 0;
    for (; at < tokens->count; at++) {
        bool is_first = depth == 2 && (is_open(tokens, at - 1) || agt_py_is(tokens, at - 1, ","));

        /* A comma within an item is deeper, so each item begins behind one, or behind the '['. */
        if (is_first && !is_close(tokens, at))
            items++;
        depth += is_open(tokens, at);
        depth -= is_close(tokens, at);
        if (depth == 0)
            break;
    }
    return items;
}

static void count(struct tests *tests)
{
    const struct agt_py_tokens *tokens = &tests->tokens;

    for (size_t i = 0; i < tests->outline.count; i++)
        tests->counts.tests += is_test(tests, i);
    for (size_t i = 0; i < tokens->count; i++) {
        tests->counts.asserts += is_assert(tokens, i);
        tests->counts.skips += is_skip(tokens, i);
        if (agt_py_is(tokens, i, "parametrize"))
            tests->counts.cases += count_cases(tokens, i + 1);
    }
}

static int read_tests(const char *text, struct tests *ret_tests, struct cr_err *err)
{
    int r = agt_py_scan(text, strlen(text), &ret_tests->tokens, err);

    if (r == 0)
        r = agt_py_outline(&ret_tests->tokens, &ret_tests->outline);
    if (r == 0)
        count(ret_tests);
    return r;
}

static bool is_same(const struct agt_py_tokens *a, const struct agt_py_tokens *b)
{
    if (a->count != b->count)
        return false;
    for (size_t i = 0; i < a->count; i++) {
        const struct agt_py_token *left = &a->items[i];
        const struct agt_py_token *right = &b->items[i];

        if (left->kind != right->kind)
            return false;
        if (left->kind == AGT_PY_NEWLINE)
            continue;
        if (left->size != right->size ||
            memcmp(a->text + left->start, b->text + right->start, left->size) != 0)
            return false;
    }
    return true;
}

static bool is_same_token(const struct tests *a, uint32_t at, const struct tests *b, uint32_t other)
{
    const struct agt_py_token *left = &a->tokens.items[at];
    const struct agt_py_token *right = &b->tokens.items[other];

    return left->size == right->size &&
           memcmp(a->tokens.text + left->start, b->tokens.text + right->start, left->size) == 0;
}

/* True when both stand in classes of the same names, or in none. */
static bool are_in_same_place(const struct tests *a, const struct agt_py_def *def,
                              const struct tests *b, const struct agt_py_def *other)
{
    while (def->parent != AGT_PY_NONE && other->parent != AGT_PY_NONE) {
        def = &a->outline.items[def->parent];
        other = &b->outline.items[other->parent];
        if (!is_same_token(a, def->name, b, other->name))
            return false;
    }
    return def->parent == other->parent; /* both have none */
}

/* Functions of `b` of the same name in the same place: how many, and the last, which is the one
 * that is run. */
static size_t find_tests(const struct tests *a, const struct agt_py_def *def, const struct tests *b,
                         const struct agt_py_def **ret_last)
{
    size_t found = 0;

    for (size_t i = 0; i < b->outline.count; i++) {
        const struct agt_py_def *other = &b->outline.items[i];

        if (!is_test(b, i) || !is_same_token(a, def->name, b, other->name) ||
            !are_in_same_place(a, def, b, other))
            continue;
        *ret_last = other;
        found++;
    }
    return found;
}

/* What stands behind a docstring. */
static bool begins_with_return(const struct tests *tests, const struct agt_py_def *def)
{
    size_t at = def->code;

    at += tests->tokens.items[at].kind == AGT_PY_NEWLINE;
    return agt_py_is(&tests->tokens, at, "return");
}

__attribute__((format(printf, 2, 3))) static void refuse(struct agt_audit *audit,
                                                         const char *format, ...)
{
    va_list args;

    va_start(args, format);
    (void)vsnprintf(audit->reason, sizeof(audit->reason), format, args);
    va_end(args);
    audit->accepted = false;
}

/* A name that is given a value there is the function's own: "test_a = …" takes nothing away. */
static bool is_local(const struct tests *tests, uint32_t at)
{
    bool is_within = false;

    for (size_t i = 0; i < tests->outline.count; i++) {
        const struct agt_py_def *def = &tests->outline.items[i];

        if (def->is_class || at <= def->colon || at >= def->end)
            continue;
        is_within = true;
        for (size_t k = def->colon; k < def->end; k++) {
            if (agt_py_is(&tests->tokens, k, "global"))
                return false;
        }
    }
    /* "test_a.__test__" is not given a value by its name. */
    return is_within && !(agt_py_is(&tests->tokens, at + 1, ".") && at + 2 < tests->tokens.count &&
                          starts_with(&tests->tokens, at + 2, "__"));
}

static bool is_name_of_test(const struct tests *before, const struct tests *tests, uint32_t at)
{
    for (size_t i = 0; i < before->outline.count && i < NAMES_MAX; i++) {
        if (is_test(before, i) && is_same_token(before, before->outline.items[i].name, tests, at))
            return true;
    }
    return false;
}

/* Statements that put something else in the place of a test of `before`, or take it away:
 * "test_a = …", "test_a.__test__ = …", "del test_a". */
static uint32_t count_removals(const struct tests *before, const struct tests *tests)
{
    const struct agt_py_tokens *tokens = &tests->tokens;
    bool is_deletion = false;
    uint32_t removals = 0;

    for (uint32_t i = 0; i < tokens->count; i++) {
        bool is_start = agt_py_is_line_start(tokens, i);
        bool is_removal;

        if (is_start)
            is_deletion = agt_py_is(tokens, i, "del");
        is_removal = is_deletion ||
                     (is_start && (agt_py_is(tokens, i + 1, "=") || agt_py_is(tokens, i + 1, ".") ||
                                   agt_py_is(tokens, i + 1, ":")));
        removals += is_removal && starts_with(tokens, i, "test") &&
                    is_name_of_test(before, tests, i) && !is_local(tests, i);
    }
    return removals;
}

/* False, and the reason in the audit, when this test of `before` is no more what it was. */
static bool is_kept(const struct tests *before, const struct agt_py_def *def,
                    const struct tests *after, struct agt_audit *audit)
{
    const struct agt_py_token *name = &before->tokens.items[def->name];
    int size = (int)(name->size < 100 ? name->size : 100);
    const char *text = before->tokens.text + name->start;
    const struct agt_py_def *old = NULL;
    const struct agt_py_def *new = NULL;
    size_t found = find_tests(before, def, after, &new);

    if (found == 0)
        refuse(audit, "%.*s is missing: no test function may be left out or renamed.", size, text);
    else if (found > find_tests(before, def, before, &old))
        refuse(audit, "%.*s is there twice: the second would take the place of the first.", size,
               text);
    else if (begins_with_return(after, new) && !begins_with_return(before, old))
        refuse(audit, "%.*s returns before it looks at anything.", size, text);
    return audit->accepted;
}

static void compare(const struct tests *before, const struct tests *after, struct agt_audit *audit)
{
    const struct agt_test_counts *old = &before->counts;
    const struct agt_test_counts *new = &after->counts;

    audit->accepted = true;
    for (size_t i = 0; i < before->outline.count && i < NAMES_MAX; i++) {
        if (is_test(before, i) && !is_kept(before, &before->outline.items[i], after, audit))
            return;
    }
    if (count_removals(before, after) > count_removals(before, before))
        refuse(audit, "A test is taken away behind its definition.");
    else if (new->asserts < old->asserts)
        refuse(audit, "There are %u assertions and there were %u: none may be taken away.",
               new->asserts, old->asserts);
    else if (new->cases < old->cases)
        refuse(audit, "There are %u parametrized cases and there were %u: none may be taken away.",
               new->cases, old->cases);
    else if (new->skips > old->skips)
        refuse(audit, "A skip or an expected failure was added.");
}

int agt_audit_tests(const char *before, const char *after, struct agt_audit *ret_audit)
{
    struct agt_audit audit = {.is_change = true, .accepted = true};
    AUTO_TESTS struct tests old = {.counts = {0, 0, 0, 0}};
    AUTO_TESTS struct tests new = {.counts = {0, 0, 0, 0}};
    struct cr_err err = CR_ERR_INIT;
    int r;

    r = read_tests(before, &old, NULL);
    if (r == -ENOMEM)
        return r;
    if (r == 0)
        r = read_tests(after, &new, &err);
    else
        (void)read_tests(after, &new, NULL);
    if (r == -ENOMEM)
        return r;
    audit.before = old.counts;
    audit.after = new.counts;
    if (old.tokens.count > 0 && new.tokens.count == 0) {
        refuse(&audit, "They are not Python: %.200s.", err.text);
    } else if (old.tokens.count > 0) {
        audit.is_change = !is_same(&old.tokens, &new.tokens);
        compare(&old, &new, &audit);
    }
    *ret_audit = audit;
    return 0;
}

void agt_audit_fill(const struct agt_audit *audit, Crisol__Agent__V1__TestChange *message)
{
    static const Crisol__Agent__V1__TestChange blank = CRISOL__AGENT__V1__TEST_CHANGE__INIT;

    *message = blank;
    message->accepted = audit->accepted;
    message->reason = cr_unconst(audit->reason);
    message->tests_before = audit->before.tests;
    message->tests_after = audit->after.tests;
    message->asserts_before = audit->before.asserts;
    message->asserts_after = audit->after.asserts;
}
