/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/verify/outline.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Definitions that are open at one place: each has an indent of its own. */
struct open_defs {
    uint32_t items[AGT_PY_INDENTS_MAX + 1];
    size_t levels[AGT_PY_INDENTS_MAX + 1]; /* of the header */
    size_t count;
};

static enum agt_py_kind kind_at(const struct agt_py_tokens *tokens, size_t index)
{
    return index < tokens->count ? tokens->items[index].kind : AGT_PY_END;
}

bool agt_py_is_line_start(const struct agt_py_tokens *tokens, size_t index)
{
    enum agt_py_kind before;

    if (index == 0)
        return true;
    before = kind_at(tokens, index - 1);
    return before == AGT_PY_NEWLINE || before == AGT_PY_INDENT || before == AGT_PY_DEDENT;
}

size_t agt_py_find_on_line(const struct agt_py_tokens *tokens, size_t index, size_t end,
                           const char *text)
{
    size_t open = 0;

    for (; index < end && kind_at(tokens, index) != AGT_PY_NEWLINE; index++) {
        const struct agt_py_token *token = &tokens->items[index];

        if (open == 0 && agt_py_is(tokens, index, text))
            return index;
        if (token->kind != AGT_PY_OPERATOR || token->size != 1)
            continue;
        if (strchr("([{", tokens->text[token->start]))
            open++;
        else if (strchr(")]}", tokens->text[token->start]) && open > 0)
            open--;
    }
    return end;
}

static size_t find_line_end(const struct agt_py_tokens *tokens, size_t index)
{
    while (kind_at(tokens, index) != AGT_PY_NEWLINE && kind_at(tokens, index) != AGT_PY_END)
        index++;
    return index;
}

/* The body's first statement, when it is a docstring, ends before this token. */
static size_t skip_docstring(const struct agt_py_tokens *tokens, size_t body)
{
    size_t at = body;

    while (kind_at(tokens, at) == AGT_PY_STRING)
        at++;
    return kind_at(tokens, at) == AGT_PY_NEWLINE ? at : body;
}

/* True when the statements from `at` on do nothing that emptying the function would change. */
static bool is_trivial(const struct agt_py_tokens *tokens, size_t at)
{
    if (kind_at(tokens, at) == AGT_PY_NEWLINE)
        at++; /* behind a docstring */
    if (kind_at(tokens, at) == AGT_PY_DEDENT)
        return true;
    if (agt_py_is(tokens, at, "pass") || agt_py_is(tokens, at, "...")) {
        at++;
    } else if (agt_py_is(tokens, at, "return")) {
        at += agt_py_is(tokens, at + 1, "None") ? 2 : 1;
    } else if (agt_py_is(tokens, at, "raise") && agt_py_is(tokens, at + 1, "NotImplementedError")) {
        at = find_line_end(tokens, at);
    } else {
        return false;
    }
    return kind_at(tokens, at) == AGT_PY_NEWLINE;
}

static int add(struct agt_py_outline *outline, const struct agt_py_def *def)
{
    if (outline->count == outline->room) {
        size_t room = outline->room ? 2 * outline->room : 32;
        struct agt_py_def *items = realloc(outline->items, room * sizeof(*items));

        if (!items)
            return -ENOMEM;
        outline->items = items;
        outline->room = room;
    }
    outline->items[outline->count++] = *def;
    return 0;
}

/* Fills in the header of a definition that begins at `at`. False when none does. */
static bool read_header(const struct agt_py_tokens *tokens, size_t at, struct agt_py_def *def)
{
    size_t name = at + (agt_py_is(tokens, at, "async") ? 2 : 1);
    size_t colon;

    if (!agt_py_is_line_start(tokens, at) || kind_at(tokens, name) != AGT_PY_NAME ||
        !(agt_py_is(tokens, name - 1, "def") || agt_py_is(tokens, at, "class")))
        return false;
    colon = agt_py_find_on_line(tokens, name, tokens->count, ":");
    if (colon == tokens->count)
        return false;
    *def = (struct agt_py_def){
        .is_class = agt_py_is(tokens, at, "class"),
        .keyword = (uint32_t)at,
        .name = (uint32_t)name,
        .colon = (uint32_t)colon,
        .parent = AGT_PY_NONE,
    };
    return true;
}

/* Fills in the body. False when there is none. */
static bool read_body(const struct agt_py_tokens *tokens, struct agt_py_def *def)
{
    size_t body = def->colon + (size_t)1;

    def->is_inline = kind_at(tokens, body) != AGT_PY_NEWLINE;
    if (!def->is_inline) {
        if (kind_at(tokens, body + 1) != AGT_PY_INDENT)
            return false;
        body += 2;
    }
    def->body = (uint32_t)body;
    def->code = (uint32_t)skip_docstring(tokens, body);
    def->end = (uint32_t)find_line_end(tokens, body) + 1; /* of a block: until its DEDENT comes */
    def->is_trivial = !def->is_class && is_trivial(tokens, def->code);
    return true;
}

static void close_defs(struct agt_py_outline *outline, struct open_defs *open, size_t level,
                       size_t end)
{
    while (open->count > 0 && open->levels[open->count - 1] >= level) {
        struct agt_py_def *def = &outline->items[open->items[--open->count]];

        def->end = (uint32_t)end;
    }
}

/* A block with more behind a statement that looks trivial is not. */
static void check_trivial(const struct agt_py_tokens *tokens, struct agt_py_outline *outline)
{
    for (size_t i = 0; i < outline->count; i++) {
        struct agt_py_def *def = &outline->items[i];
        size_t at = def->code;

        if (!def->is_trivial || def->is_inline)
            continue;
        if (kind_at(tokens, at) == AGT_PY_NEWLINE)
            at++;
        if (kind_at(tokens, at) != AGT_PY_DEDENT)
            at = find_line_end(tokens, at) + 1;
        def->is_trivial = at + 1 == def->end;
    }
}

int agt_py_outline(const struct agt_py_tokens *tokens, struct agt_py_outline *ret_outline)
{
    struct agt_py_outline outline = {NULL, 0, 0};
    struct open_defs open = {.count = 0};
    struct agt_py_def def;
    size_t level = 0;

    for (size_t i = 0; i < tokens->count; i++) {
        if (kind_at(tokens, i) == AGT_PY_INDENT)
            level++;
        if (kind_at(tokens, i) == AGT_PY_DEDENT)
            close_defs(&outline, &open, --level, i + 1);
        if (!read_header(tokens, i, &def) || !read_body(tokens, &def))
            continue;
        if (open.count > 0)
            def.parent = open.items[open.count - 1];
        if (add(&outline, &def) < 0) {
            agt_py_outline_done(&outline);
            return -ENOMEM;
        }
        if (!def.is_inline) {
            open.levels[open.count] = level;
            open.items[open.count++] = (uint32_t)outline.count - 1;
        }
    }
    check_trivial(tokens, &outline);
    *ret_outline = outline;
    return 0;
}

void agt_py_outline_done(struct agt_py_outline *outline)
{
    free(outline->items);
    *outline = (struct agt_py_outline){NULL, 0, 0};
}
