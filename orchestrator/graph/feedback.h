/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "orchestrator/graph/evidence.h"
#include "orchestrator/graph/fenced.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cr_buf;

#define AGT_FEEDBACK_BUDGET 8192U /* bytes */

/* What the feedback on an attempt is made from. Everything is borrowed. */
struct agt_feedback {
    const struct agt_evidence *evidence;
    const Crisol__Sandbox__V1__ExecuteResult *result;
    const struct agt_files *files;
    const char *stdout_text;
    const char *stderr_text;
    int32_t repeats;       /* attempt that failed in the same way; 0: none */
    const char *diff;      /* against the attempt before; "": there is none */
    const char *delimiter; /* random: the program cannot have known it */
    size_t budget;         /* bytes; at least 1,024 */
};

/*
 * Appends what the generator is told about an attempt: the cause and the
 * counts in our words, then, fenced by the delimiter as data and not
 * instructions, the failing tests, the place in solution.py, the ends of the
 * output, and what this attempt had changed. Stays within the budget. Pure. Returns 0, -ENOSPC when
 * the buffer is smaller than the budget, or -ENOMEM.
 */
int agt_feedback_add(const struct agt_feedback *feedback, struct cr_buf *buf);
