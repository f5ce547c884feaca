/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/verify/mutants.h"

#include "common/auto.h"
#include "common/buf.h"

#include <stdio.h>
#include <string.h>

/* Where the walk is. Places are indices of tokens. */
struct walk {
    const struct agt_py_tokens *tokens;
    const struct agt_py_outline *outline;
    size_t next_def; /* that has not begun yet */
    size_t body_end; /* of the outermost function that the place is in */
    size_t skip_end; /* nothing is changed before it */
};

static const struct agt_py_token *token_at(const struct agt_py_tokens *tokens, size_t index)
{
    return &tokens->items[index];
}

static bool is_one_of(const struct agt_py_tokens *tokens, size_t index, const char *const *words,
                      size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (agt_py_is(tokens, index, words[i]))
            return true;
    }
    return false;
}

static bool is_keyword(const struct agt_py_tokens *tokens, size_t index)
{
    static const char *const words[] = {
        "and",  "as",     "assert", "async", "await",  "break",   "case",     "class", "continue",
        "def",  "del",    "elif",   "else",  "except", "finally", "for",      "from",  "global",
        "if",   "import", "in",     "is",    "lambda", "match",   "nonlocal", "not",   "or",
        "pass", "raise",  "return", "try",   "while",  "with",    "yield",
    };

    return is_one_of(tokens, index, words, CR_ARRAY_SIZE(words));
}

/* True when the token ends an operand, so that an operator behind it has two. */
static bool is_operand_end(const struct agt_py_tokens *tokens, size_t index)
{
    static const char *const closes[] = {")", "]", "}"};

    switch (token_at(tokens, index)->kind) {
    case AGT_PY_NUMBER:
    case AGT_PY_STRING:
        return true;
    case AGT_PY_NAME:
        return !is_keyword(tokens, index);
    default:
        return is_one_of(tokens, index, closes, CR_ARRAY_SIZE(closes));
    }
}

static bool set_after(struct agt_mutant *mutant, const char *after)
{
    (void)snprintf(mutant->after, sizeof(mutant->after), "%s", after);
    return true;
}

/* '<' becomes '>=' and not '<=': an edge that is met is often the same either way. */
static bool change_operator(const struct agt_py_tokens *tokens, size_t index,
                            struct agt_mutant *mutant)
{
    static const struct {
        const char *before;
        const char *after;
    } changes[] = {
        {"<", ">="},  {"<=", ">"},  {">", "<="},  {">=", "<"},  {"==", "!="}, {"!=", "=="},
        {"+", "-"},   {"-", "+"},   {"*", "+"},   {"/", "*"},   {"//", "*"},  {"%", "*"},
        {"**", "*"},  {"&", "|"},   {"|", "&"},   {"^", "&"},   {"<<", ">>"}, {">>", "<<"},
        {"+=", "-="}, {"-=", "+="}, {"*=", "+="}, {"/=", "*="}, {"&=", "|="}, {"|=", "&="},
    };

    /* A sign, an unpacking, the text before a '%': another thing than an operator of two numbers */
    if (index == 0 || !is_operand_end(tokens, index - 1) ||
        token_at(tokens, index - 1)->kind == AGT_PY_STRING)
        return false;
    for (size_t i = 0; i < CR_ARRAY_SIZE(changes); i++) {
        if (agt_py_is(tokens, index, changes[i].before))
            return set_after(mutant, changes[i].after);
    }
    return false;
}

static bool change_name(const struct agt_py_tokens *tokens, size_t index, struct agt_mutant *mutant)
{
    static const char *const pairs[][2] = {
        {"and", "or"}, {"or", "and"}, {"True", "False"}, {"False", "True"}};

    if (index > 0 && agt_py_is(tokens, index - 1, "."))
        return false;
    if (agt_py_is(tokens, index, "not"))
        return !agt_py_is(tokens, index + 1, "in") &&
               (index == 0 || !agt_py_is(tokens, index - 1, "is")) && set_after(mutant, "");
    for (size_t i = 0; i < CR_ARRAY_SIZE(pairs); i++) {
        if (agt_py_is(tokens, index, pairs[i][0]))
            return set_after(mutant, pairs[i][1]);
    }
    return false;
}

/* A whole number that fits becomes the next one. */
static bool change_number(const struct agt_py_tokens *tokens, size_t index,
                          struct agt_mutant *mutant)
{
    const struct agt_py_token *token = token_at(tokens, index);
    const char *digits = tokens->text + token->start;
    unsigned long value = 0;

    if (token->size > 9 || (token->size > 1 && digits[0] == '0'))
        return false;
    for (size_t i = 0; i < token->size; i++) {
        if (digits[i] < '0' || digits[i] > '9')
            return false;
        value = 10 * value + (unsigned long)(digits[i] - '0');
    }
    (void)snprintf(mutant->after, sizeof(mutant->after), "%lu", value + 1);
    return true;
}

/* Tokens to either side of a text that are looked at: it is in no longer docstring. */
#define DOCSTRING_TOKENS_MAX 50

/* True for a text that is a statement, perhaps with others and in parentheses: a docstring. */
static bool stands_alone(const struct agt_py_tokens *tokens, size_t index)
{
    size_t from = index;
    size_t end = index;

    while (!agt_py_is_line_start(tokens, from) && index - from < DOCSTRING_TOKENS_MAX &&
           (token_at(tokens, from - 1)->kind == AGT_PY_STRING || agt_py_is(tokens, from - 1, "(")))
        from--;
    while (end - index < DOCSTRING_TOKENS_MAX &&
           (token_at(tokens, end)->kind == AGT_PY_STRING || agt_py_is(tokens, end, ")")))
        end++;
    return agt_py_is_line_start(tokens, from) &&
           (token_at(tokens, end)->kind == AGT_PY_NEWLINE || agt_py_is(tokens, end, ";"));
}

/* A short plain text becomes empty, but for a docstring. */
static bool change_string(const struct agt_py_tokens *tokens, size_t index,
                          struct agt_mutant *mutant)
{
    const struct agt_py_token *token = token_at(tokens, index);
    char quote = tokens->text[token->start];

    if (token->size <= 2 || (quote != '"' && quote != '\'') ||
        tokens->text[token->start + 1] == quote || stands_alone(tokens, index))
        return false;
    return set_after(mutant, "\"\"");
}

static bool change(const struct agt_py_tokens *tokens, size_t index, struct agt_mutant *mutant)
{
    const struct agt_py_token *token = token_at(tokens, index);
    bool is_changed = false;

    if (token->size == 0 || token->size >= sizeof(mutant->before))
        return false;
    switch (token->kind) {
    case AGT_PY_OPERATOR:
        is_changed = change_operator(tokens, index, mutant);
        break;
    case AGT_PY_NAME:
        is_changed = change_name(tokens, index, mutant);
        break;
    case AGT_PY_NUMBER:
        is_changed = change_number(tokens, index, mutant);
        break;
    case AGT_PY_STRING:
        is_changed = change_string(tokens, index, mutant);
        break;
    default:
        break;
    }
    if (!is_changed)
        return false;
    mutant->token = (uint32_t)index;
    mutant->line = token->line;
    (void)snprintf(mutant->before, sizeof(mutant->before), "%.*s", (int)token->size,
                   tokens->text + token->start);
    return true;
}

static size_t find_line_end(const struct agt_py_tokens *tokens, size_t index)
{
    while (index < tokens->count && token_at(tokens, index)->kind != AGT_PY_NEWLINE)
        index++;
    return index;
}

/* "name: type = value": nothing looks at the type within a function. */
static size_t skip_annotation(const struct agt_py_tokens *tokens, size_t index)
{
    size_t end = find_line_end(tokens, index);
    size_t colon;

    if (token_at(tokens, index)->kind != AGT_PY_NAME || is_keyword(tokens, index))
        return index;
    colon = agt_py_find_on_line(tokens, index, end, ":");
    return colon < end ? agt_py_find_on_line(tokens, colon, end, "=") : index;
}

/* Takes the walk over the token. True when it may be changed. */
static bool step(struct walk *walk, size_t index)
{
    const struct agt_py_tokens *tokens = walk->tokens;
    size_t skip_end = index;

    if (walk->next_def < walk->outline->count &&
        walk->outline->items[walk->next_def].keyword == index) {
        const struct agt_py_def *def = &walk->outline->items[walk->next_def++];

        skip_end = def->colon + (size_t)1;
        if (!def->is_class && !def->is_trivial && def->end > walk->body_end)
            walk->body_end = def->end;
    } else if (index >= walk->skip_end &&
               (agt_py_is(tokens, index, "raise") || agt_py_is(tokens, index, "assert"))) {
        skip_end = find_line_end(tokens, index);
    } else if (agt_py_is_line_start(tokens, index)) {
        skip_end = agt_py_is(tokens, index, "@") ? find_line_end(tokens, index)
                                                 : skip_annotation(tokens, index);
    }
    if (skip_end > walk->skip_end)
        walk->skip_end = skip_end;
    return index >= walk->skip_end && index < walk->body_end;
}

/* Walks over all changes; keeps those that a share of `max` out of `count` falls on. */
static size_t walk_all(const struct agt_py_tokens *tokens, const struct agt_py_outline *outline,
                       struct agt_mutant *mutants, size_t max, size_t count)
{
    struct walk walk = {.tokens = tokens, .outline = outline};
    struct agt_mutant mutant;
    size_t kept = 0;
    size_t seen = 0;

    for (size_t i = 0; i < tokens->count; i++) {
        if (!step(&walk, i) || !change(tokens, i, &mutant))
            continue;
        /* The middles of `max` equal parts; each one, when there are no more. */
        if (mutants && kept < max && (count <= max || seen == (2 * kept + 1) * count / (2 * max)))
            mutants[kept++] = mutant;
        seen++;
    }
    return mutants ? kept : seen;
}

size_t agt_mutants_choose(const struct agt_py_tokens *tokens, const struct agt_py_outline *outline,
                          struct agt_mutant *mutants, size_t max)
{
    size_t count = walk_all(tokens, outline, NULL, 0, 0);

    return walk_all(tokens, outline, mutants, max, count);
}

int agt_mutant_add(const struct agt_py_tokens *tokens, const struct agt_mutant *mutant,
                   struct cr_buf *buf)
{
    const struct agt_py_token *token = token_at(tokens, mutant->token);
    size_t size = token_at(tokens, tokens->count - 1)->start; /* of END */
    size_t behind = (size_t)token->start + token->size;
    int r = cr_buf_add(buf, tokens->text, token->start);

    if (r == 0)
        r = cr_buf_add_str(buf, mutant->after);
    return r == 0 ? cr_buf_add(buf, tokens->text + behind, size - behind) : r;
}
