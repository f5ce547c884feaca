/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/orchestrator/runs/runs_fixture.h"

void runs_hold(void *user, const struct agt_model_request *request, struct double_answer *answer)
{
    double_solve(user, request, answer);
    answer->is_held = true;
}

void runs_set_up(struct runs_fixture *fixture, double_model_script script,
                 const struct agt_runs_options *options, const struct agt_engine_options *engine)
{
    struct agt_runs_options own = {0};

    *fixture = (struct runs_fixture){.runs = NULL};
    engine_fixture_start(&fixture->engine, script, NULL, engine);
    if (options)
        own = *options;
    own.engine = fixture->engine.engine;
    assert_int_equal(agt_runs_new(&own, &fixture->runs, NULL), 0);
}

void runs_tear_down(struct runs_fixture *fixture)
{
    assert_null(agt_runs_free(fixture->runs));
    engine_fixture_stop(&fixture->engine);
}

struct agt_run *runs_begin(struct runs_fixture *fixture, const char *caller, const char *key,
                           const char *task, struct rpc_status *status)
{
    const struct agt_run_spec spec = {.task = task};
    struct agt_run *run = NULL;

    *status = (struct rpc_status)RPC_STATUS_INIT;
    (void)agt_runs_start(fixture->runs, caller, key, &spec, &run, status);
    return run;
}
