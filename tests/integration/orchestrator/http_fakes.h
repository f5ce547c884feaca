/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct agt_sandbox;

/*
 * Stands in for the engine (at link time: the functions of
 * orchestrator/graph/engine.h that the server calls) and for sandboxd, so that
 * a test decides what happens and when. The text asks for the behaviour:
 *
 * task:  "quick"   a run with 3 state events, 2 deltas and its result
 *        "hang"    a run that goes on until it is cancelled or fake_finish()
 *        "bulk"    a run of 400 deltas of 32 KiB before its result
 *        "no key", "full", "draining"  are refused
 *        ""        is a violation
 * code:  "ok"      prints "4\n" and "warn\n", exit 0
 *        "binary"  prints bytes that are no UTF-8
 *        "hang"    goes on until it is cancelled
 *        "flood"   prints 16 MiB
 *        "huge"    has a result of 40 MiB
 *        "full", "bad", "late"  end with a status; "late" after some output
 *        "none"    ends OK without a result
 *        "down"    cannot be started
 */
struct fake_counts {
    uint32_t runs_live;
    uint32_t runs_cancelled;
    uint32_t watches_live;
    uint32_t executions_live;
    uint32_t executions_cancelled;
    uint32_t executions_ended;
};

struct agt_engine;

struct agt_engine *fake_engine_new(void);
void fake_engine_free(struct agt_engine *engine);

/* One more state event on every run that hangs. */
void fake_push(struct agt_engine *engine);
/* Ends every run that hangs, with a result. */
void fake_finish(struct agt_engine *engine);

struct agt_sandbox *fake_sandbox_new(void);

struct fake_counts fake_counts(void);
