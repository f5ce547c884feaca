/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/integration/orchestrator/http_fixture.h"

#include "common/err.h"
#include "orchestrator/runs/runs.h"
#include "orchestrator/sandbox/sandbox.h"
#include "tests/harness/test.h"
#include "tests/integration/orchestrator/http_client.h"
#include "tests/integration/orchestrator/http_fakes.h"

void http_fixture_start(struct http_fixture *fixture, const struct agt_http_options *options)
{
    struct agt_http_options own = {0};
    struct agt_runs_options runs_options = {0};
    struct cr_err err = CR_ERR_INIT;

    if (options)
        own = *options;
    *fixture = (struct http_fixture){.fds_before = test_count_fds()};
    fixture->engine = fake_engine_new();
    runs_options.engine = fixture->engine;
    assert_int_equal(agt_runs_new(&runs_options, &fixture->runs, NULL), 0);
    fixture->sandbox = fake_sandbox_new();
    own.address = "127.0.0.1:0";
    own.runs = fixture->runs;
    own.sandbox = fixture->sandbox;
    if (agt_http_new(&own, &fixture->http, &err) < 0 || agt_http_start(fixture->http, &err) < 0)
        fail_msg("%s", err.text);
    fixture->port = agt_http_port(fixture->http);
    assert_true(fixture->port > 0);
}

static bool is_all_over(void *user)
{
    struct fake_counts counts = fake_counts();

    (void)user;
    return counts.watches_live == 0 && counts.executions_live == 0;
}

bool http_fixture_stop(struct http_fixture *fixture, int grace_ms)
{
    bool is_clean = agt_http_stop(fixture->http, grace_ms);

    assert_null(agt_http_free(fixture->http));
    assert_true(eventually(is_all_over, NULL));
    assert_null(agt_runs_free(fixture->runs));
    fake_engine_free(fixture->engine);
    fixture->sandbox->ops->free(fixture->sandbox);
    assert_int_equal(fake_counts().runs_live, 0);
    assert_int_equal(test_count_fds(), fixture->fds_before);
    return is_clean;
}
