/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "orchestrator/graph/prompt.h"

#include <stdbool.h>

struct agt_call;
struct agt_run;

/* Internal to orchestrator/graph: what planner and generator share. */

/* The form that the next answer of the generator is asked for in. */
Crisol__Agent__V1__AnswerForm agt_model_form(const struct agt_run *run);

/* Starts a model call, or ends the node when that cannot be. */
void agt_model_ask(struct agt_run *run, enum agt_prompt_kind kind, const struct agt_prompt *prompt);

/*
 * Books a call that has ended (usage, served model, ModelCall event). True
 * when it ended with an answer; else the node has been ended.
 */
bool agt_model_check(struct agt_run *run, const struct agt_call *call);

/* Asks again and says what was wrong, or fails the run when that was done often enough. */
void agt_model_ask_again(struct agt_run *run, const char *complaint);

/* The answer was good: the next question starts afresh. */
void agt_model_accept(struct agt_run *run);
