/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "orchestrator/verify/outline.h"
#include "tests/harness/test.h"

#include <string.h>

/* Source text, read. For the tests of what works on it. */
struct source {
    struct agt_py_tokens tokens;
    struct agt_py_outline outline;
};

static inline struct source source_read(const char *text)
{
    struct source source = {.tokens = {.text = NULL}};

    assert_int_equal(agt_py_scan(text, strlen(text), &source.tokens, NULL), 0);
    assert_int_equal(agt_py_outline(&source.tokens, &source.outline), 0);
    return source;
}

static inline void source_done(struct source *source)
{
    agt_py_outline_done(&source->outline);
    agt_py_tokens_done(&source->tokens);
}
