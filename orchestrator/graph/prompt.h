/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

struct agt_files;
struct cr_buf;

/* Enough for a task, a plan, two files and the feedback. */
#define AGT_PROMPT_MAX 1048576U

enum agt_prompt_kind {
    AGT_PROMPT_PLAN,
    AGT_PROMPT_CODE,
    AGT_PROMPT_REPAIR,
};

/* What a prompt is made from. Everything is borrowed; what does not apply is NULL or 0. */
struct agt_prompt {
    const char *task;
    const char *plan;              /* CODE, REPAIR */
    int32_t failed_attempt;        /* REPAIR */
    const char *feedback;          /* REPAIR */
    const struct agt_files *files; /* REPAIR: of the failed attempt */
    const char *complaint;         /* what was wrong with the answer before */
};

/* The system instruction of a kind, without its version line. Static. */
const char *agt_prompt_system(enum agt_prompt_kind kind);

/*
 * Appends the user's turn. Its first line is "TASK: " and the first line of
 * the task; a repair has the line "ATTEMPT n FAILED". Pure.
 * Returns as cr_buf_add().
 */
int agt_prompt_add(const struct agt_prompt *prompt, struct cr_buf *buf);
