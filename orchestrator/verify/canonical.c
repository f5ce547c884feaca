/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/verify/canonical.h"

#include "common/buf.h"
#include "orchestrator/verify/outline.h"

#include <errno.h>
#include <string.h>

/* Behind the strings at `index`, when they are a statement of their own; else `index`. */
static size_t skip_text_statement(const struct agt_py_tokens *tokens, size_t index)
{
    size_t at = index;

    if (!agt_py_is_line_start(tokens, index))
        return index;
    while (tokens->items[at].kind == AGT_PY_STRING)
        at++;
    return at > index && tokens->items[at].kind == AGT_PY_NEWLINE ? at + 1 : index;
}

static int add_token(const struct agt_py_tokens *tokens, size_t index, struct cr_buf *buf)
{
    static const char *const marks[] = {
        [AGT_PY_NEWLINE] = "", [AGT_PY_INDENT] = ">", [AGT_PY_DEDENT] = "<", [AGT_PY_END] = ""};
    const struct agt_py_token *token = &tokens->items[index];
    int r;

    if (token->kind >= AGT_PY_NEWLINE)
        r = cr_buf_add_str(buf, marks[token->kind]);
    else
        r = cr_buf_add(buf, tokens->text + token->start, token->size);
    return r == 0 ? cr_buf_add_char(buf, '\n') : r;
}

int agt_py_add_canonical(const char *text, struct cr_buf *buf)
{
    AGT_AUTO_PY_TOKENS struct agt_py_tokens tokens = {.text = NULL};
    int r = agt_py_scan(text, strlen(text), &tokens, NULL);

    if (r == -EINVAL)
        return cr_buf_add_str(buf, text);
    for (size_t i = 0; r == 0 && i < tokens.count; i++) {
        i = skip_text_statement(&tokens, i);
        r = add_token(&tokens, i, buf);
    }
    return r;
}
