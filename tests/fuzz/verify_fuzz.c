/* SPDX-License-Identifier: Apache-2.0 */
#include "common/buf.h"
#include "orchestrator/verify/audit.h"
#include "orchestrator/verify/lint.h"
#include "orchestrator/verify/mutants.h"
#include "orchestrator/verify/rewrite.h"
#include "tests/fuzz/fuzz.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/*
 * A model's Python: whatever comes, the tokens are in order and within the
 * text, indents are in pairs, and a stub is the text with guards put in.
 */
static void check_tokens(const struct agt_py_tokens *tokens, size_t size)
{
    size_t end = 0;
    size_t level = 0;

    FUZZ_CHECK(tokens->count > 0 && tokens->items[tokens->count - 1].kind == AGT_PY_END);
    for (size_t i = 0; i < tokens->count; i++) {
        const struct agt_py_token *token = &tokens->items[i];

        FUZZ_CHECK(token->start >= end && token->start + token->size <= size);
        end = token->start + token->size;
        level += token->kind == AGT_PY_INDENT;
        FUZZ_CHECK(token->kind != AGT_PY_DEDENT || level > 0);
        level -= token->kind == AGT_PY_DEDENT;
    }
    FUZZ_CHECK(level == 0);
}

static void check_outline(const struct agt_py_tokens *tokens, const struct agt_py_outline *outline)
{
    for (size_t i = 0; i < outline->count; i++) {
        const struct agt_py_def *def = &outline->items[i];

        FUZZ_CHECK(def->keyword < def->name && def->name < def->colon && def->colon < def->body);
        FUZZ_CHECK(def->body <= def->code && def->code <= def->end && def->end <= tokens->count);
        FUZZ_CHECK(def->parent == AGT_PY_NONE || def->parent < i);
    }
}

static void check_stub(const struct agt_py_tokens *tokens, const struct agt_py_outline *outline,
                       size_t size)
{
    struct cr_buf buf;
    size_t count = 0;

    cr_buf_init(&buf, (size_t)1 << 24);
    FUZZ_CHECK(agt_stub_add(tokens, outline, AGT_STUB_RAISE, "crisol_m", &buf, &count) == 0);
    FUZZ_CHECK(count <= outline->count && buf.size > size);
    cr_buf_done(&buf);
}

static void check_mutants(const struct agt_py_tokens *tokens, const struct agt_py_outline *outline,
                          size_t size)
{
    struct agt_mutant mutants[8];
    size_t count = agt_mutants_choose(tokens, outline, mutants, 8);
    struct cr_buf buf;

    cr_buf_init(&buf, (size_t)1 << 24);
    for (size_t i = 0; i < count; i++) {
        FUZZ_CHECK(agt_mutant_add(tokens, &mutants[i], &buf) == 0);
        FUZZ_CHECK(buf.size + strlen(mutants[i].before) == size + strlen(mutants[i].after));
        FUZZ_CHECK(i == 0 || mutants[i].token > mutants[i - 1].token);
        cr_buf_clear(&buf);
    }
    cr_buf_done(&buf);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = fuzz_text(data, size);
    AGT_AUTO_PY_TOKENS struct agt_py_tokens tokens = {.text = NULL};
    AGT_AUTO_PY_OUTLINE struct agt_py_outline outline = {NULL, 0, 0};
    struct agt_audit audit;
    int r;

    size = strlen(text);
    r = agt_py_scan(text, size, &tokens, NULL);
    if (r == 0) {
        check_tokens(&tokens, size);
        FUZZ_CHECK(agt_py_outline(&tokens, &outline) == 0);
        check_outline(&tokens, &outline);
        check_stub(&tokens, &outline, size);
        check_mutants(&tokens, &outline, size);
        (void)agt_lint_always_equal(&tokens, &outline);
        (void)agt_stub_is_under_test(&tokens, &outline, &tokens);
        (void)agt_stub_has_data_under_test(&tokens, &outline, &tokens);
    } else {
        FUZZ_CHECK(r == -EINVAL);
    }
    FUZZ_CHECK(agt_audit_tests(text, text, &audit) == 0);
    FUZZ_CHECK(r < 0 || (!audit.is_change && audit.accepted));
    free(text);
    return 0;
}
