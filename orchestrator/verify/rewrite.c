/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/verify/rewrite.h"

#include "common/auto.h"
#include "common/buf.h"

#include <string.h>

/* Definitions that are looked for in the tests: a file of more is no honest one, and the time that
 * it takes is the product of both files. */
#define LOOKED_AT_MAX 1000

static const struct agt_py_token *token_at(const struct agt_py_tokens *tokens, size_t index)
{
    return &tokens->items[index];
}

static int add_guard(enum agt_stub_kind kind, const char *mark, struct cr_buf *buf)
{
    return cr_buf_printf(buf, "if \"%s\" in globals() or __name__ == \"__main__\": %s", mark,
                         kind == AGT_STUB_RAISE ? "raise NotImplementedError" : "return");
}

/* Appends a line end and the white space before the token. */
static int add_indent(const struct agt_py_tokens *tokens, size_t index, struct cr_buf *buf)
{
    size_t end = token_at(tokens, index)->start;
    size_t start = end;
    int r;

    while (start > 0 && (tokens->text[start - 1] == ' ' || tokens->text[start - 1] == '\t'))
        start--;
    r = cr_buf_add_char(buf, '\n');
    return r == 0 ? cr_buf_add(buf, tokens->text + start, end - start) : r;
}

/* Where the guard of a function goes: a byte of the text. */
static size_t guard_place(const struct agt_py_tokens *tokens, const struct agt_py_def *def)
{
    const struct agt_py_token *token;

    if (def->code == def->body)
        return token_at(tokens, def->body)->start;
    token = token_at(tokens, def->code - (size_t)1); /* the docstring */
    return (size_t)token->start + token->size;
}

/* What stands on the line of the header moves to a line of its own. */
static int add_inline_guard(const struct agt_py_tokens *tokens, const struct agt_py_def *def,
                            enum agt_stub_kind kind, const char *mark, struct cr_buf *buf)
{
    int r = 0;

    if (def->code != def->body) /* a docstring alone is trivial and never comes here */
        return 0;
    r = add_indent(tokens, def->keyword, buf);
    if (r == 0)
        r = cr_buf_add_str(buf, "    ");
    if (r == 0)
        r = add_guard(kind, mark, buf);
    if (r == 0)
        r = add_indent(tokens, def->keyword, buf);
    return r == 0 ? cr_buf_add_str(buf, "    ") : r;
}

static int add_function_guard(const struct agt_py_tokens *tokens, const struct agt_py_def *def,
                              enum agt_stub_kind kind, const char *mark, struct cr_buf *buf)
{
    bool has_docstring = def->code != def->body;
    int r = 0;

    if (def->is_inline)
        return add_inline_guard(tokens, def, kind, mark, buf);
    if (has_docstring)
        r = add_indent(tokens, def->body, buf);
    if (r == 0)
        r = add_guard(kind, mark, buf);
    return r == 0 && !has_docstring ? add_indent(tokens, def->body, buf) : r;
}

static bool is_stubbed(const struct agt_py_def *def)
{
    return !def->is_class && !def->is_trivial;
}

int agt_stub_add(const struct agt_py_tokens *tokens, const struct agt_py_outline *outline,
                 enum agt_stub_kind kind, const char *mark, struct cr_buf *buf, size_t *ret_count)
{
    size_t size = token_at(tokens, tokens->count - 1)->start; /* of END */
    size_t done = 0;
    size_t count = 0;
    int r = 0;

    for (size_t i = 0; r == 0 && i < outline->count; i++) {
        const struct agt_py_def *def = &outline->items[i];
        size_t place = guard_place(tokens, def);

        if (!is_stubbed(def))
            continue;
        r = cr_buf_add(buf, tokens->text + done, place - done);
        if (r == 0)
            r = add_function_guard(tokens, def, kind, mark, buf);
        done = place;
        count++;
    }
    if (r == 0)
        r = cr_buf_add(buf, tokens->text + done, size - done);
    if (r == 0)
        r = cr_buf_printf(buf, "\n%s = True\n", mark);
    *ret_count = count;
    return r;
}

static bool mentions_token(const struct agt_py_tokens *tests, const struct agt_py_tokens *solution,
                           size_t index)
{
    const struct agt_py_token *token = token_at(solution, index);

    return agt_py_mentions(tests, solution->text + token->start, token->size);
}

static bool is_constructor(const struct agt_py_tokens *tokens, const struct agt_py_def *def)
{
    static const char *const names[] = {"__init__", "__new__", "__post_init__", "__call__"};

    for (size_t i = 0; i < CR_ARRAY_SIZE(names); i++) {
        if (agt_py_is(tokens, def->name, names[i]))
            return true;
    }
    return false;
}

bool agt_stub_is_under_test(const struct agt_py_tokens *solution,
                            const struct agt_py_outline *outline, const struct agt_py_tokens *tests)
{
    for (size_t i = 0; i < outline->count && i < LOOKED_AT_MAX; i++) {
        const struct agt_py_def *def = &outline->items[i];

        if (!is_stubbed(def))
            continue;
        if (mentions_token(tests, solution, def->name))
            return true;
        if (def->parent != AGT_PY_NONE && is_constructor(solution, def) &&
            mentions_token(tests, solution, outline->items[def->parent].name))
            return true;
    }
    return false;
}

/* "NAME =" or "NAME:" as a statement that begins at the token. */
static bool is_assignment(const struct agt_py_tokens *tokens, size_t index)
{
    return agt_py_is_line_start(tokens, index) && token_at(tokens, index)->kind == AGT_PY_NAME &&
           (agt_py_is(tokens, index + 1, "=") || agt_py_is(tokens, index + 1, ":")) &&
           !agt_py_is(tokens, index, "else") && !agt_py_is(tokens, index, "try") &&
           !agt_py_is(tokens, index, "finally") && !agt_py_is(tokens, index, "except");
}

/* True for a class with an assignment in its body that is not within a method. */
static bool has_attributes(const struct agt_py_tokens *tokens, const struct agt_py_outline *outline,
                           size_t class_index)
{
    const struct agt_py_def *class = &outline->items[class_index];
    size_t next = class_index + 1; /* definition that has not begun yet */
    size_t at = class->body;

    while (at < class->end) {
        while (next < outline->count && outline->items[next].keyword < at)
            next++;
        if (next < outline->count && outline->items[next].keyword == at) {
            at = outline->items[next].end;
            continue;
        }
        if (is_assignment(tokens, at))
            return true;
        at++;
    }
    return false;
}

static bool has_variable_under_test(const struct agt_py_tokens *solution,
                                    const struct agt_py_tokens *tests)
{
    size_t level = 0;
    size_t looked_at = 0;

    for (size_t i = 0; i < solution->count && looked_at < LOOKED_AT_MAX; i++) {
        level += token_at(solution, i)->kind == AGT_PY_INDENT;
        level -= token_at(solution, i)->kind == AGT_PY_DEDENT;
        if (level > 0 || !is_assignment(solution, i))
            continue;
        looked_at++;
        if (mentions_token(tests, solution, i))
            return true;
    }
    return false;
}

bool agt_stub_has_data_under_test(const struct agt_py_tokens *solution,
                                  const struct agt_py_outline *outline,
                                  const struct agt_py_tokens *tests)
{
    for (size_t i = 0; i < outline->count && i < LOOKED_AT_MAX; i++) {
        const struct agt_py_def *def = &outline->items[i];

        if (def->is_class && mentions_token(tests, solution, def->name) &&
            has_attributes(solution, outline, i))
            return true;
    }
    return has_variable_under_test(solution, tests);
}

int agt_canary_add(const char *tests, const char *name, const char *text, struct cr_buf *buf)
{
    int r = cr_buf_add_str(buf, tests);

    return r == 0 ? cr_buf_printf(buf, "\n\ndef %s():\n    assert False, \"%s\"\n", name, text) : r;
}
