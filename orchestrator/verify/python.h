/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cr_err;

/* Python source as tokens: as much of the lexical rules (Python 3.11 to 3.14) as is needed to find
 * functions and to change a file without breaking it. No syntax tree. */

#define AGT_PY_INDENTS_MAX 100 /* as in CPython */
#define AGT_PY_NESTING_MAX 200 /* brackets, as in CPython */

enum agt_py_kind {
    AGT_PY_NAME, /* keywords too */
    AGT_PY_NUMBER,
    AGT_PY_STRING, /* with prefix and quotes; an f-string is one token */
    AGT_PY_OPERATOR,
    AGT_PY_NEWLINE, /* end of a logical line; size 0 at the end of the text */
    AGT_PY_INDENT,  /* size 0 */
    AGT_PY_DEDENT,  /* size 0 */
    AGT_PY_END,     /* last, exactly once */
};

struct agt_py_token {
    enum agt_py_kind kind;
    uint32_t start; /* byte offset */
    uint32_t size;
    uint32_t line; /* 1, 2, 3, … */
};

/*
 * Comments and empty lines are left out; INDENT and DEDENT are in pairs. The
 * text is borrowed: it outlives the tokens. Initialise with zeros.
 */
struct agt_py_tokens {
    const char *text;
    struct agt_py_token *items;
    size_t count;
    size_t room;
};

/*
 * Returns 0, -EINVAL with the line and what is wrong (an open string or
 * bracket, an impossible indent, …), or -ENOMEM. On failure nothing is kept.
 * Pure.
 */
int agt_py_scan(const char *text, size_t size, struct agt_py_tokens *ret_tokens,
                struct cr_err *err);
void agt_py_tokens_done(struct agt_py_tokens *tokens);

#define AGT_AUTO_PY_TOKENS __attribute__((cleanup(agt_py_tokens_done)))

/* True when the token at `index` (which may be behind the end) is this name or operator. */
bool agt_py_is(const struct agt_py_tokens *tokens, size_t index, const char *text);

/* True when `name` is among the names of the text. Strings and comments do not count. */
bool agt_py_mentions(const struct agt_py_tokens *tokens, const char *name, size_t size);

/* End of the string literal whose opening quote is at `at`; 0: it is not closed. */
size_t agt_py_plain_end(const char *text, size_t size, size_t at);

/*
 * The same for an f-string: quotes within a replacement field open strings of
 * their own (PEP 701). 0 when that finds no end: then the older rule counts,
 * by which an f-string ends as any other does. Looks at the whole rest of the
 * text before it says so.
 */
size_t agt_py_format_end(const char *text, size_t size, size_t at);
