/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "orchestrator/verify/outline.h"

/*
 * Looks for objects that are equal to everything: an __eq__ that never looks
 * at the other side (a method, a lambda, another function of the file), or only
 * at whether that equals itself, or is another comparison (__ne__, __le__), or
 * the ANY of unittest.mock. With them an assertion on a value holds for every
 * value, which no emptied function shows. Returns the line, or 0 when there is none.
 * Pure. A look at the source: code that means to hide can.
 */
unsigned agt_lint_always_equal(const struct agt_py_tokens *tokens,
                               const struct agt_py_outline *outline);
