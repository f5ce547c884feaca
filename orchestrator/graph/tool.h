/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "orchestrator/model/model.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct agt_call;
struct agt_run;

/*
 * Internal to orchestrator/graph: Python that the model runs while it works
 * on an answer. Each program is a run in the sandbox of its own; what it
 * printed goes back to the model, and the question is asked again with it.
 */
struct agt_tools;

#define AGT_TOOL_NAME "execute_python"
#define AGT_TOOL_CALLS_MAX 10

extern const struct agt_model_function agt_tool_function;

/* Before a new question: what was tried for another one is forgotten. */
void agt_tools_reset(struct agt_run *run);
struct agt_tools *agt_tools_free(struct agt_tools *tools); /* NULL is allowed */

/* Programs that may still be run for this question; *ret_is_on: the request allows any at all. */
uint32_t agt_tools_left(const struct agt_run *run, bool *ret_is_on);

/* What was run so far, for the request. Borrowed until the next program. */
const struct agt_model_turn *agt_tools_turns(const struct agt_run *run, size_t *ret_count);

/* Times that this question was asked again with the outcome of a program, or without. */
uint32_t agt_tools_asked(const struct agt_run *run);

/* The answer is a call of the function. */
bool agt_tool_is_called(const struct agt_call *call);

/* Takes such an answer: runs the program, or asks again. */
void agt_tool_begin(struct agt_run *run, const struct agt_call *call);

/* The program has ended: asks again with what came of it. */
void agt_tool_on_end(struct agt_run *run, struct agt_call *call);
