/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "orchestrator/verify/python.h"

#define AGT_PY_NONE UINT32_MAX

/* A function or a class. All places are indices of tokens. */
struct agt_py_def {
    bool is_class;
    bool is_inline;  /* the body stands on the line of the header */
    bool is_trivial; /* a function that does nothing: pass, ..., return None, not implemented */
    uint32_t keyword;
    uint32_t name;
    uint32_t colon;
    uint32_t body;   /* first token of the first statement */
    uint32_t code;   /* the same behind a docstring; body, when there is none */
    uint32_t end;    /* behind the last token */
    uint32_t parent; /* index of the enclosing definition, or AGT_PY_NONE */
};

/* The definitions in order of appearance. Initialise with zeros. */
struct agt_py_outline {
    struct agt_py_def *items;
    size_t count;
    size_t room;
};

/* Returns 0 or -ENOMEM. What is no definition by its form is left out. Pure. */
int agt_py_outline(const struct agt_py_tokens *tokens, struct agt_py_outline *ret_outline);
void agt_py_outline_done(struct agt_py_outline *outline);

#define AGT_AUTO_PY_OUTLINE __attribute__((cleanup(agt_py_outline_done)))

/* True at the first token of a statement that begins a logical line. */
bool agt_py_is_line_start(const struct agt_py_tokens *tokens, size_t index);

/* Index of the first token at or behind `index`, below `end`, that is this one outside brackets;
 * `end` when there is none on the logical line. */
size_t agt_py_find_on_line(const struct agt_py_tokens *tokens, size_t index, size_t end,
                           const char *text);
