/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/verify/python.h"

#include <string.h>

/* f-strings within fields of f-strings, and brackets within a field. */
#define DEPTH_MAX 16

struct quote {
    char mark;
    size_t size; /* 1 or 3 */
};

static struct quote read_quote(const char *text, size_t size, size_t at)
{
    struct quote quote = {.mark = text[at], .size = 1};

    if (size - at >= 3 && text[at + 1] == quote.mark && text[at + 2] == quote.mark)
        quote.size = 3;
    return quote;
}

static bool is_at_end(const char *text, size_t size, size_t at, struct quote quote)
{
    if (size - at < quote.size)
        return false;
    for (size_t i = 0; i < quote.size; i++) {
        if (text[at + i] != quote.mark)
            return false;
    }
    return true;
}

size_t agt_py_plain_end(const char *text, size_t size, size_t at)
{
    struct quote quote = read_quote(text, size, at);

    at += quote.size;
    while (at < size) {
        if (is_at_end(text, size, at, quote))
            return at + quote.size;
        if (text[at] == '\n' && quote.size == 1)
            return 0;
        at += text[at] == '\\' ? 2 : 1; /* in a raw string, too, a quote behind '\' is no end */
    }
    return 0;
}

static size_t format_end(const char *text, size_t size, size_t at, unsigned depth);

/* True when letters before the quote at `at` make it an f-string (or a t-string). */
static bool has_format_prefix(const char *text, size_t at)
{
    for (size_t i = 1; i <= 2 && i <= at; i++) {
        if (strchr("fFtT", text[at - i]))
            return true;
        if (!strchr("rR", text[at - i]))
            return false;
    }
    return false;
}

/* A replacement field that is being read. */
struct field {
    struct quote outer; /* of its string */
    unsigned depth;
    unsigned open; /* brackets */
    bool is_spec;  /* behind the ':', where text is literal again */
};

static size_t field_end(const char *text, size_t size, size_t at, struct quote outer,
                        unsigned depth);

/* Reads one piece of the text behind the ':'. Returns the offset behind it, or 0. */
static size_t read_spec(const char *text, size_t size, size_t at, const struct field *field)
{
    if ((text[at] == '\n' && field->outer.size == 1) || is_at_end(text, size, at, field->outer))
        return 0;
    if (text[at] != '{')
        return at + 1;
    return field->depth < DEPTH_MAX ? field_end(text, size, at + 1, field->outer, field->depth + 1)
                                    : 0;
}

/* The same before the ':', where quotes open strings. */
static size_t read_code(const char *text, size_t size, size_t at, struct field *field)
{
    char c = text[at];

    if (c == '"' || c == '\'')
        return has_format_prefix(text, at) ? format_end(text, size, at, field->depth + 1)
                                           : agt_py_plain_end(text, size, at);
    if (c == '(' || c == '[' || c == '{')
        field->open++;
    else if (field->open > 0 && (c == ')' || c == ']' || c == '}'))
        field->open--;
    else if (c == ':' && field->open == 0)
        field->is_spec = true;
    return at + 1;
}

/* `at` is behind the '{'. Returns the offset behind the matching '}', or 0. */
static size_t field_end(const char *text, size_t size, size_t at, struct quote outer,
                        unsigned depth)
{
    struct field field = {.outer = outer, .depth = depth};

    while (at > 0 && at < size) {
        if (text[at] == '}' && field.open == 0)
            return at + 1;
        at = field.is_spec ? read_spec(text, size, at, &field) : read_code(text, size, at, &field);
    }
    return 0;
}

static size_t format_end(const char *text, size_t size, size_t at, unsigned depth)
{
    struct quote quote = read_quote(text, size, at);

    if (depth > DEPTH_MAX)
        return 0;
    at += quote.size;
    while (at < size) {
        if (is_at_end(text, size, at, quote))
            return at + quote.size;
        if (text[at] == '\n' && quote.size == 1)
            return 0;
        if (text[at] == '{' && at + 1 < size && text[at + 1] == '{') {
            at += 2;
        } else if (text[at] == '{') {
            at = field_end(text, size, at + 1, quote, depth);
            if (at == 0)
                return 0;
        } else {
            at += text[at] == '\\' && at + 1 < size && text[at + 1] != '{' ? 2 : 1;
        }
    }
    return 0;
}

size_t agt_py_format_end(const char *text, size_t size, size_t at)
{
    return format_end(text, size, at, 0);
}
