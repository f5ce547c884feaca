/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "orchestrator/runs/private.h"
#include "orchestrator/store/store.h"
#include "rpc/status.h"
#include "tests/harness/engine_fixture.h"
#include "tests/harness/test.h"

/* The runs of an engine on doubles. Failures end the test. */
struct runs_fixture {
    struct engine_fixture engine;
    struct agt_runs *runs;
    struct agt_store *store; /* NULL: none */
};

/* A script of the model's that answers nothing yet. */
void runs_hold(void *user, const struct agt_model_request *request, struct double_answer *answer);

/* Of `options` (NULL: all defaults) the engine is filled in; `engine` as of engine_fixture_start().
 */
void runs_set_up(struct runs_fixture *fixture, double_model_script script,
                 const struct agt_runs_options *options, const struct agt_engine_options *engine);
void runs_tear_down(struct runs_fixture *fixture);

/* The caller owns a reference; NULL with *status when it is refused. */
struct agt_run *runs_begin(struct runs_fixture *fixture, const char *caller, const char *key,
                           const char *task, struct rpc_status *status);
