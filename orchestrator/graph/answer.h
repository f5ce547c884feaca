/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "crisol/agent/v1/agent.pb-c.h"
#include "orchestrator/graph/fenced.h"

#include <stdbool.h>
#include <stdint.h>

struct agt_model_request;

/*
 * The forms that a generator's answer can have: two fenced blocks, a JSON
 * object, or a call of submit_files. One is asked for; each is read, whichever
 * comes.
 */

/* The function of form CALL. */
#define AGT_SUBMIT_NAME "submit_files"

/*
 * The form of the question after `format_failures` answers in a row that could
 * not be read: the one that was asked for (0: fenced), then another, then the
 * third.
 */
Crisol__Agent__V1__AnswerForm agt_answer_form(Crisol__Agent__V1__AnswerForm asked,
                                              uint32_t format_failures);

/* What the prompt says about a form in place of the rules for fenced blocks; NULL: nothing. */
const char *agt_answer_rules(Crisol__Agent__V1__AnswerForm form);

/* The JSON Schema of the files: of a JSON answer, and of the arguments of the call. Static. */
const char *agt_answer_schema(const Crisol__Agent__V1__TaskTerms *terms);

/* What the model gave. Borrowed. */
struct agt_answer {
    const char *text; /* UTF-8 */
    size_t size;
    const char *call_name; /* "" or NULL: no function was called */
    const char *call_arguments;
    const Crisol__Agent__V1__TaskTerms *terms; /* of the task; NULL: none */
};

/* It begins with what the model thinks, as text; its reader leaves that out. */
bool agt_answer_has_thoughts(const struct agt_answer *answer);

/*
 * Reads the files. Thoughts that a model wrote into its answer
 * (<think>…</think> at its beginning, or "THOUGHT:" up to the first block or
 * object) are left out. Returns 0; -EINVAL with
 * what was wrong, worded for the model, in `complaint` (at least 256 bytes);
 * -ENOMEM. Pure.
 */
int agt_answer_read(const struct agt_answer *answer, struct agt_files *ret_files, char *complaint,
                    size_t complaint_size);
