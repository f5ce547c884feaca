/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/harness/engine_fixture.h"

#include "common/log.h"
#include "crisol/agent/v1/agent.pb-c.h"
#include "tests/harness/test.h"

void engine_fixture_start(struct engine_fixture *fixture, double_model_script model,
                          double_sandbox_script sandbox, const struct agt_engine_options *options)
{
    struct agt_engine_options mine = {.retry_base_ms = 1};

    cr_log_setup("test", CR_LOG_ERROR, CR_LOG_TEXT);
    fixture->fds_before = test_count_fds();
    fixture->model = double_model_new(model, fixture);
    fixture->sandbox = double_sandbox_new(sandbox, fixture);
    fixture->answers = 0;
    fixture->executions = 0;
    fixture->terms = NULL;
    fixture->terms_size = 0;
    fixture->verify = CRISOL__AGENT__V1__VERIFICATION_LEVEL__VERIFICATION_LEVEL_EVIDENCE;
    if (options)
        mine = *options;
    mine.model = fixture->model;
    mine.sandbox = fixture->sandbox;
    assert_int_equal(agt_engine_new(&mine, &fixture->engine, NULL), 0);
}

void engine_fixture_stop(struct engine_fixture *fixture)
{
    assert_null(agt_engine_free(fixture->engine));
    fixture->model->ops->free(fixture->model);
    fixture->sandbox->ops->free(fixture->sandbox);
    assert_int_equal(test_count_fds(), fixture->fds_before);
}

struct agt_run *engine_fixture_run(struct engine_fixture *fixture, int32_t max_iterations)
{
    struct agt_run_spec spec = {
        .task = "add two numbers",
        .max_iterations = max_iterations,
        .verify = fixture->verify,
        .terms = fixture->terms,
        .terms_size = fixture->terms_size,
    };
    struct rpc_status status = RPC_STATUS_INIT;
    struct agt_run *run = NULL;

    assert_int_equal(agt_engine_start(fixture->engine, &spec, &run, &status), 0);
    return run;
}
