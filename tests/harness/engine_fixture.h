/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "orchestrator/graph/engine.h"
#include "tests/harness/doubles.h"

/* An engine on doubles of the model and of sandboxd. The scripts get the fixture as `user`. */
struct engine_fixture {
    struct agt_model *model;
    struct agt_sandbox *sandbox;
    struct agt_engine *engine;
    uint32_t answers;    /* for a script of the model; read it after the runs */
    uint32_t executions; /* for a script of sandboxd; read it after the runs */
    int mode;            /* set before the first run */
    const void *terms;   /* packed TaskTerms of the runs that follow; NULL after the start */
    size_t terms_size;
    int verify; /* level of the runs that follow; EVIDENCE after the start */
    int fds_before;
};

/* Scripts may be NULL. `options` may be NULL; model and sandbox are filled in. */
void engine_fixture_start(struct engine_fixture *fixture, double_model_script model,
                          double_sandbox_script sandbox, const struct agt_engine_options *options);

/* Frees everything and asserts that every fd is back. */
void engine_fixture_stop(struct engine_fixture *fixture);

/* Starts a run of "add two numbers"; 0: default iterations. */
struct agt_run *engine_fixture_run(struct engine_fixture *fixture, int32_t max_iterations);
