/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/graph/prompt.h"

#include "common/buf.h"
#include "common/utf8.h"
#include "orchestrator/graph/fenced.h"
#include "orchestrator/graph/terms.h"
#include "orchestrator/prompts/prompts.h"

#include <stdio.h>
#include <string.h>

static const char * override(enum agt_prompt_kind kind,
                             const Crisol__Agent__V1__PromptOverrides *prompts)
{
    switch (kind) {
    case AGT_PROMPT_PLAN:
        return prompts->planner;
    case AGT_PROMPT_CODE:
        return prompts->generator;
    default:
        return prompts->repair;
    }
}

const char *agt_prompt_system(enum agt_prompt_kind kind, const Crisol__Agent__V1__TaskTerms *terms)
{
    static const char *const files[] = {
        [AGT_PROMPT_PLAN] = agt_prompt_planner_file,
        [AGT_PROMPT_CODE] = agt_prompt_generator_file,
        [AGT_PROMPT_REPAIR] = agt_prompt_repair_file,
    };

    if (terms && terms->prompts && override(kind, terms->prompts)[0])
        return override(kind, terms->prompts);
    return strchr(files[kind], '\n') + 1; /* a unit test reads the version line of each */
}

/* The longest run of backticks at the beginning of a line, indent left aside. */
static size_t longest_fence(const char *text)
{
    size_t longest = 0;

    while (*text) {
        size_t size;

        text += strspn(text, " ");
        size = strspn(text, "`");
        if (size > longest)
            longest = size;
        text = strchrnul(text, '\n');
        text += *text == '\n';
    }
    return longest;
}

static int add_fence(struct cr_buf *buf, size_t size)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < size; i++)
        r = cr_buf_add_char(buf, '`');
    return r;
}

int agt_prompt_add_block(struct cr_buf *buf, const char *info, const char *text, size_t max)
{
    size_t fence = longest_fence(text) < 4 ? 4 : longest_fence(text) + 1;
    size_t size = strlen(text);
    int r = add_fence(buf, fence);

    if (size > max)
        size = cr_utf8_complete_prefix(text, max);
    if (r == 0)
        r = cr_buf_printf(buf, "%s\n", info);
    if (r == 0)
        r = cr_buf_add(buf, text, size);
    if (r == 0 && size > 0 && text[size - 1] != '\n')
        r = cr_buf_add_char(buf, '\n');
    if (r == 0)
        r = add_fence(buf, fence);
    return r == 0 ? cr_buf_add_str(buf, "\n\n") : r;
}

static int add_file(struct cr_buf *buf, const char *name, const char *text)
{
    char info[16 + AGT_PATH_MAX];

    (void)snprintf(info, sizeof(info), "%s path=%s", agt_files_is_python(name) ? "python" : "text",
                   name);
    return agt_prompt_add_block(buf, info, text, SIZE_MAX);
}

static bool shows_more(const struct agt_prompt *prompt)
{
    return prompt->files && !prompt->hides_solution;
}

static int add_failure(const struct agt_prompt *prompt, struct cr_buf *buf)
{
    int r = 0;

    if (prompt->files)
        r = cr_buf_printf(buf, "\nFILES OF ATTEMPT %d\n\n", prompt->failed_attempt);
    if (r == 0 && prompt->files)
        r = add_file(buf, AGT_TESTS_NAME, prompt->files->tests);
    if (r == 0 && shows_more(prompt))
        r = add_file(buf, AGT_SOLUTION_NAME, prompt->files->solution);
    for (size_t i = 0; r == 0 && shows_more(prompt) && i < prompt->files->more_count; i++)
        r = add_file(buf, prompt->files->more[i].path, prompt->files->more[i].text);
    if (r == 0)
        r = cr_buf_printf(buf, "ATTEMPT %d FAILED\n", prompt->failed_attempt);
    return r == 0 ? cr_buf_add_str(buf, prompt->feedback) : r;
}

int agt_prompt_add(const struct agt_prompt *prompt, struct cr_buf *buf)
{
    const char *task = prompt->task + strspn(prompt->task, " \t\r\n");
    int r = cr_buf_printf(buf, "TASK: %s\n", task);

    if (r == 0)
        r = agt_terms_add_prompt(prompt->terms, buf);
    if (r == 0 && prompt->plan)
        r = cr_buf_printf(buf, "\nPLAN\n%s\n", prompt->plan);
    if (r == 0 && prompt->feedback)
        r = add_failure(prompt, buf);
    if (r == 0 && prompt->repetition)
        r = cr_buf_printf(buf, "\nTHE ATTEMPTS REPEAT THEMSELVES\n%s.\n%s\n", prompt->repetition,
                          prompt->advice ? prompt->advice : "");
    if (r == 0 && prompt->hint)
        r = cr_buf_printf(buf,
                          "\nA PERSON HAS LOOKED AT THE ATTEMPTS AND SAYS\n%s\nFollow it where it "
                          "goes against what was tried before.\n",
                          prompt->hint);
    if (r == 0 && prompt->complaint)
        r = cr_buf_printf(buf,
                          "\nYOUR LAST ANSWER COULD NOT BE USED\n%s\nAnswer again, whole, by the "
                          "rules.\n",
                          prompt->complaint);
    if (r == 0 && prompt->rules)
        r = cr_buf_add_str(buf, prompt->rules);
    return r;
}
