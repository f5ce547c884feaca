/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "orchestrator/verify/outline.h"

struct cr_buf;

/* One small change of the solution: a token becomes another. */
struct agt_mutant {
    uint32_t token;
    uint32_t line;   /* 1, 2, 3, … */
    char before[16]; /* as it stands there */
    char after[16];  /* "": it is taken out */
};

/*
 * Chooses at most `max` small changes within the functions of the solution,
 * spread evenly over its text, always the same ones for the same text. Returns
 * how many.
 *
 * What seldom changes what the code does is no change here: messages (long
 * strings, `raise`, `assert`), annotations, defaults, decorators, and '<' for '<='.
 * Still a change may happen to be equivalent, which no test can notice; whoever
 * counts has to leave room for that. Pure.
 */
size_t agt_mutants_choose(const struct agt_py_tokens *tokens, const struct agt_py_outline *outline,
                          struct agt_mutant *mutants, size_t max);

/* Appends the solution with the change made. Returns as cr_buf_add(). */
int agt_mutant_add(const struct agt_py_tokens *tokens, const struct agt_mutant *mutant,
                   struct cr_buf *buf);
