/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "orchestrator/verify/outline.h"

struct cr_buf;

/* Writes the files that the checks of an attempt are run with. All pure. */

enum agt_stub_kind {
    AGT_STUB_RAISE, /* every function raises NotImplementedError */
    AGT_STUB_NONE,  /* every function returns None */
};

/*
 * Appends the solution with every function emptied that does anything. The
 * signatures, decorators, docstrings and attributes of classes stay.
 *
 * The functions are emptied from the moment on when the module has been
 * imported, not before: a table that a function computes on import is a part
 * of the solution that is not under test here, and an import that failed would
 * say nothing about the tests. Run as a script, they are empty from the start.
 * `mark` is a name that the solution cannot know.
 *
 * *ret_count is how many functions were emptied. Returns as cr_buf_add().
 */
int agt_stub_add(const struct agt_py_tokens *tokens, const struct agt_py_outline *outline,
                 enum agt_stub_kind kind, const char *mark, struct cr_buf *buf, size_t *ret_count);

/*
 * True when the tests name one of the functions that the stubs empty (a
 * constructor by the name of its class).
 */
bool agt_stub_is_under_test(const struct agt_py_tokens *solution,
                            const struct agt_py_outline *outline,
                            const struct agt_py_tokens *tests);

/*
 * True when the tests name something of the solution that holds data of its
 * own: a variable of the module, or a class with attributes.
 */
bool agt_stub_has_data_under_test(const struct agt_py_tokens *solution,
                                  const struct agt_py_outline *outline,
                                  const struct agt_py_tokens *tests);

/* Appends the tests and one more named `name`, which fails with `text`. */
int agt_canary_add(const char *tests, const char *name, const char *text, struct cr_buf *buf);
