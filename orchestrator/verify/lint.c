/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/verify/lint.h"

#include "common/auto.h"

#include <string.h>

/* Assignments to __eq__ that are looked at: each may cost a look at the whole of its line. */
#define LOOKED_AT_MAX 100

static bool is_same_name(const struct agt_py_tokens *tokens, size_t a, size_t b)
{
    const struct agt_py_token *left = &tokens->items[a];
    const struct agt_py_token *right = &tokens->items[b];

    return left->kind == AGT_PY_NAME && right->kind == AGT_PY_NAME && left->size == right->size &&
           memcmp(tokens->text + left->start, tokens->text + right->start, left->size) == 0;
}

/* "del other" or "_ = other": a name that is there for a tool which complains of unused ones. */
static bool is_thrown_away(const struct agt_py_tokens *tokens, size_t at)
{
    return agt_py_is(tokens, at - 1, "del") ||
           (agt_py_is(tokens, at - 2, "_") && agt_py_is(tokens, at - 1, "=") &&
            tokens->items[at + 1].kind == AGT_PY_NEWLINE);
}

static bool is_one_of(const struct agt_py_tokens *tokens, size_t at, const char *const *words,
                      size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (agt_py_is(tokens, at, words[i]))
            return true;
    }
    return false;
}

/* "other == other" as a condition of its own, which says nothing. `at` is either side. */
static bool is_compared_with_itself(const struct agt_py_tokens *tokens, size_t at)
{
    static const char *const before[] = {"return", "(", "and", "or", "if", ":", "="};
    static const char *const behind[] = {")", "and", "or", ":", ";"};
    static const char *const equals[] = {"==", "is"};
    size_t left = is_one_of(tokens, at - 1, equals, CR_ARRAY_SIZE(equals)) ? at - 2 : at;
    size_t end = left + 3;

    return end < tokens->count && is_same_name(tokens, left, left + 2) &&
           is_one_of(tokens, left + 1, equals, CR_ARRAY_SIZE(equals)) &&
           is_one_of(tokens, left - 1, before, CR_ARRAY_SIZE(before)) &&
           (tokens->items[end].kind == AGT_PY_NEWLINE ||
            is_one_of(tokens, end, behind, CR_ARRAY_SIZE(behind)));
}

static bool is_used(const struct agt_py_tokens *tokens, size_t name, size_t from, size_t end)
{
    for (size_t i = from; i < end && i < tokens->count; i++) {
        if (is_same_name(tokens, name, i) && !is_thrown_away(tokens, i) &&
            !is_compared_with_itself(tokens, i))
            return true;
    }
    return false;
}

/* Index of the second parameter's name (or of "*args") between `from` and `end`; 0: none. */
static size_t second_parameter(const struct agt_py_tokens *tokens, size_t from, size_t end)
{
    size_t comma = agt_py_find_on_line(tokens, from, end, ",");
    size_t name = comma < end ? comma + 1 : from;

    while (name < end && tokens->items[name].kind != AGT_PY_NAME)
        name++; /* '*' or '/' */
    return name < end ? name : 0;
}

/* A body of one statement that makes no two objects equal. */
static bool is_harmless(const struct agt_py_tokens *tokens, size_t at)
{
    if (agt_py_is(tokens, at, "raise"))
        return true;
    return agt_py_is(tokens, at, "return") &&
           (agt_py_is(tokens, at + 1, "NotImplemented") || agt_py_is(tokens, at + 1, "False")) &&
           tokens->items[at + 2].kind == AGT_PY_NEWLINE;
}

static bool is_blind_function(const struct agt_py_tokens *tokens, const struct agt_py_def *def)
{
    size_t code = def->code;
    size_t other;

    if (def->is_class || def->is_trivial)
        return false;
    other = second_parameter(tokens, def->name + (size_t)2, def->colon - (size_t)1);
    if (tokens->items[code].kind == AGT_PY_NEWLINE)
        code++; /* behind a docstring */
    return other > 0 && !is_harmless(tokens, code) && !is_used(tokens, other, code, def->end);
}

static bool is_blind_method(const struct agt_py_tokens *tokens, const struct agt_py_def *def)
{
    return def->parent != AGT_PY_NONE && agt_py_is(tokens, def->name, "__eq__") &&
           is_blind_function(tokens, def);
}

/* `at` is the `lambda` of an __eq__. */
static bool is_blind_lambda(const struct agt_py_tokens *tokens, size_t at)
{
    size_t colon = agt_py_find_on_line(tokens, at, tokens->count, ":");
    size_t other;
    size_t end;

    if (colon == tokens->count)
        return false;
    other = second_parameter(tokens, at + 1, colon);
    for (end = colon; end < tokens->count && tokens->items[end].kind != AGT_PY_NEWLINE; end++)
        ;
    return other > 0 && !is_used(tokens, other, colon + 1, end);
}

/* "__eq__" in quotes. */
static bool is_quoted_name(const struct agt_py_tokens *tokens, size_t index)
{
    const struct agt_py_token *token = &tokens->items[index];

    return token->kind == AGT_PY_STRING && token->size == sizeof("'__eq__'") - 1 &&
           memcmp(tokens->text + token->start + 1, "__eq__", 6) == 0;
}

/* "same" behind "__eq__ =", where the last function of that name never looks at its second
 * parameter. */
static bool is_blind_name(const struct agt_py_tokens *tokens, const struct agt_py_outline *outline,
                          size_t at)
{
    for (size_t i = outline->count; i > 0; i--) {
        if (is_same_name(tokens, at, outline->items[i - 1].name))
            return is_blind_function(tokens, &outline->items[i - 1]);
    }
    return false;
}

/* "int.__ne__": equal to whatever it is not; "int.__le__": to half of all there is. */
static bool is_inverted(const struct agt_py_tokens *tokens, size_t at)
{
    static const char *const others[] = {"__ne__", "__lt__", "__le__", "__gt__", "__ge__"};

    while (tokens->items[at].kind == AGT_PY_NAME && agt_py_is(tokens, at + 1, "."))
        at += 2;
    return is_one_of(tokens, at, others, CR_ARRAY_SIZE(others));
}

/* Where the value of "__eq__ =", "__eq__: type =", "'__eq__':" or "'__eq__'," begins; 0: none. */
static size_t find_value(const struct agt_py_tokens *tokens, size_t index)
{
    size_t next = index + 1;

    if (is_quoted_name(tokens, index))
        return agt_py_is(tokens, next, ":") || agt_py_is(tokens, next, ",") ? next + 1 : 0;
    if (!agt_py_is(tokens, index, "__eq__"))
        return 0;
    if (agt_py_is(tokens, next, ":"))
        next = agt_py_find_on_line(tokens, next + 1, tokens->count, "=");
    return agt_py_is(tokens, next, "=") ? next + 1 : 0;
}

static bool is_blind_assignment(const struct agt_py_tokens *tokens,
                                const struct agt_py_outline *outline, size_t index)
{
    size_t value = find_value(tokens, index);

    if (value == 0)
        return false;
    if (agt_py_is(tokens, value, "lambda"))
        return is_blind_lambda(tokens, value);
    return is_inverted(tokens, value) ||
           (!agt_py_is(tokens, value + 1, ".") && !agt_py_is(tokens, value + 1, "(") &&
            is_blind_name(tokens, outline, value));
}

/* The line of the first `word` among the names; 0: there is none. */
static unsigned find_name(const struct agt_py_tokens *tokens, const char *word)
{
    for (size_t i = 0; i < tokens->count; i++) {
        if (agt_py_is(tokens, i, word))
            return tokens->items[i].line;
    }
    return 0;
}

static unsigned find_assignment(const struct agt_py_tokens *tokens,
                                const struct agt_py_outline *outline)
{
    size_t looked_at = 0;

    for (size_t i = 0; i < tokens->count && looked_at < LOOKED_AT_MAX; i++) {
        bool is_equality = agt_py_is(tokens, i, "__eq__") || is_quoted_name(tokens, i);

        if (is_equality && is_blind_assignment(tokens, outline, i))
            return tokens->items[i].line;
        looked_at += is_equality;
    }
    return 0;
}

unsigned agt_lint_always_equal(const struct agt_py_tokens *tokens,
                               const struct agt_py_outline *outline)
{
    unsigned line;

    for (size_t i = 0; i < outline->count; i++) {
        if (is_blind_method(tokens, &outline->items[i]))
            return tokens->items[outline->items[i].keyword].line;
    }
    line = find_assignment(tokens, outline);
    if (line == 0 && agt_py_mentions(tokens, "mock", 4))
        line = find_name(tokens, "ANY");
    return line;
}
