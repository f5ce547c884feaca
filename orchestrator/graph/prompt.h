/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "crisol/agent/v1/agent.pb-c.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct agt_files;
struct cr_buf;

/* Enough for a task, its files, a plan, all files of an attempt and the feedback, each as large as
 * it may be. */
#define AGT_PROMPT_MAX 2097152U

enum agt_prompt_kind {
    AGT_PROMPT_PLAN,
    AGT_PROMPT_CODE,
    AGT_PROMPT_REPAIR,
};

/* What a prompt is made from. Everything is borrowed; what does not apply is NULL or 0. */
struct agt_prompt {
    const char *task;
    const Crisol__Agent__V1__TaskTerms *terms; /* NULL: none */
    const char *plan;                          /* PLAN: the one that led to no solution */
    int32_t failed_attempt;                    /* REPAIR, another PLAN */
    const char *feedback;                      /* the same */
    const struct agt_files *files;             /* REPAIR: of the failed attempt */
    const char *repetition; /* what repeats itself: "Attempt 2 failed as attempt 1 did" */
    const char *advice;     /* what to do about it */
    const char *hint;       /* what a person said */
    bool hides_solution;    /* it is not shown again */
    const char *complaint;  /* what was wrong with the answer before */
    const char *rules;      /* on the form of the answer, last */
};

/* The system instruction of a kind, without its version line; or that of the terms (NULL: none),
 * which it is borrowed from. */
const char *agt_prompt_system(enum agt_prompt_kind kind, const Crisol__Agent__V1__TaskTerms *terms);

/* Appends a fenced block of at most `max` bytes of the text, and an empty line. Returns as
 * cr_buf_add(). */
int agt_prompt_add_block(struct cr_buf *buf, const char *info, const char *text, size_t max);

/*
 * Appends the user's turn. Its first line is "TASK: " and the first line of
 * the task; a repair has the line "ATTEMPT n FAILED". Pure.
 * Returns as cr_buf_add().
 */
int agt_prompt_add(const struct agt_prompt *prompt, struct cr_buf *buf);
