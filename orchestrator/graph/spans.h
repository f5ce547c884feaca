/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

struct agt_call;
struct agt_run;

/*
 * What a run does, as spans of a trace: the run, its calls of the model and of
 * the sandbox, and what sandboxd says about the stages of each. Calls that a
 * restart only repeats from the journal are none.
 */

/* The run belongs to the trace that the thread works for, or begins one. */
void agt_spans_begin_run(struct agt_run *run);

/* It has ended. Engine's thread. */
void agt_spans_end_run(struct agt_run *run);

/* The call is about to be made: gives it a span of the run. */
void agt_spans_begin_call(struct agt_call *call);

/* Its end has come. Engine's thread. */
void agt_spans_end_call(struct agt_run *run, const struct agt_call *call);
