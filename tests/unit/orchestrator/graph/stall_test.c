/* SPDX-License-Identifier: Apache-2.0 */
#include "crisol/agent/v1/agent.pb-c.h"
#include "orchestrator/graph/export.h"
#include "orchestrator/graph/fork.h"
#include "orchestrator/replay/replay_run.h"
#include "orchestrator/store/store.h"
#include "rpc/status.h"
#include "tests/harness/double_store.h"
#include "tests/harness/engine_fixture.h"
#include "tests/harness/run_reader.h"
#include "tests/harness/test.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EVENT(name) CRISOL__AGENT__V1__RUN_EVENT__EVENT_##name
#define STATUS(name) CRISOL__AGENT__V1__RUN_STATUS__RUN_STATUS_##name
#define CAUSE(name) CRISOL__AGENT__V1__FAILURE_CAUSE__FAILURE_CAUSE_##name
#define NODE(name) CRISOL__AGENT__V1__NODE__NODE_##name

enum mode {
    MODE_SAME_CODE,    /* every answer is the first one, but for a comment */
    MODE_SAME_FAILURE, /* the code is another each time, the failure is not */
    MODE_SEESAW,       /* two answers in turn */
    MODE_RECOVERS,     /* the same code once, then another, which passes */
    MODE_HINTED,       /* as SAME_FAILURE, but the second attempt is the best, until it is told */
};

#define HINT "Mind the carry."
#define RIGHT 1000U

#define PROMPTS_MAX 16

/* The prompts of the model in order; on the double's thread, while the test waits. */
static char prompts[PROMPTS_MAX][16384];

static void answer(void *user, const struct agt_model_request *request,
                   struct double_answer *ret_answer)
{
    static char text[1024];
    struct engine_fixture *fixture = user;
    uint32_t count = fixture->answers;
    uint32_t code = 0;

    if (count < PROMPTS_MAX)
        (void)snprintf(prompts[count], sizeof(prompts[0]), "%s", request->prompt);
    fixture->answers++;
    double_solve(NULL, request, ret_answer);
    if (strcmp(request->purpose, "plan") == 0)
        return;
    if (fixture->mode == MODE_SAME_FAILURE || fixture->mode == MODE_HINTED)
        code = strstr(request->prompt, HINT) ? RIGHT : count;
    else if (fixture->mode == MODE_SEESAW)
        code = count % 2;
    else if (fixture->mode == MODE_RECOVERS)
        code = count > 2;
    (void)snprintf(
        text, sizeof(text),
        "````python path=test_solution.py\nfrom solution import add\n\n\ndef test_add():\n"
        "    assert add(1, 1) == 2\n````\n\n````python path=solution.py\n# answer %u\n"
        "def add(a, b):\n    return a + b + %u\n````\n",
        count, code);
    ret_answer->text = text;
}

static void judge(void *user, const Crisol__Sandbox__V1__ExecuteRequest *request,
                  struct double_execution *ret_execution)
{
    static const char *const failures[] = {"assert 0 == 1", "assert 2 == 1", "assert 3 == 1"};
    struct engine_fixture *fixture = user;

    double_pass(NULL, request, ret_execution);
    if ((fixture->mode == MODE_RECOVERS && strstr(request->files[0]->text, "+ 1")) ||
        strstr(request->files[0]->text, "+ 1000"))
        return;
    ret_execution->exit_code = 1;
    ret_execution->failed = 1;
    if (fixture->mode == MODE_HINTED && strstr(request->files[0]->text, "+ 2\n"))
        ret_execution->passed++;
    if (fixture->mode != MODE_SAME_FAILURE && fixture->mode != MODE_HINTED)
        ret_execution->failure = failures[fixture->executions % 3];
    fixture->executions++;
}

static void run_ten(struct engine_fixture *fixture, enum mode mode, struct run_reader *reader)
{
    engine_fixture_start(fixture, answer, judge, NULL);
    fixture->mode = (int)mode;
    run_reader_read(reader, engine_fixture_run(fixture, 10));
}

static void done(struct engine_fixture *fixture, struct run_reader *reader)
{
    run_reader_done(reader);
    engine_fixture_stop(fixture);
}

/* The edges that are about repetitions, as "from>outcome ". */
static void list_edges(const struct run_reader *reader, char *text, size_t size)
{
    text[0] = '\0';
    for (uint32_t i = 0; i < run_reader_count(reader, EVENT(EDGE_TAKEN)); i++) {
        const Crisol__Agent__V1__EdgeTaken *edge =
            run_reader_find(reader, EVENT(EDGE_TAKEN), i)->edge_taken;
        size_t used = strlen(text);

        if (strcmp(edge->outcome, "repeated") == 0 || strcmp(edge->outcome, "replan") == 0 ||
            strcmp(edge->outcome, "stalled") == 0)
            (void)snprintf(text + used, size - used, "%s>%s ",
                           edge->from == NODE(GENERATOR) ? "generator" : "evaluator",
                           edge->outcome);
    }
}

static void same_code_is_not_run_again_and_ends_the_run_at_the_fourth_time(void **state)
{
    struct engine_fixture fixture;
    struct run_reader reader;
    char edges[256];

    (void)state;
    run_ten(&fixture, MODE_SAME_CODE, &reader);

    assert_int_equal(reader.result->status, STATUS(FAILED));
    assert_int_equal(reader.result->cause, CAUSE(STALLED));
    assert_int_equal(reader.result->iterations, 1);
    assert_int_equal(fixture.executions, 1);
    list_edges(&reader, edges, sizeof(edges));
    assert_string_equal(edges, "generator>repeated generator>repeated generator>replan "
                               "generator>stalled ");
    assert_int_equal(reader.result->n_files, 2);
    assert_non_null(strstr(reader.result->final_response, "repeat themselves"));
    assert_non_null(strstr(reader.result->error_history[1], "code of attempt 1 again"));
    done(&fixture, &reader);
}

static void prompts_go_down_the_ladder(void **state)
{
    struct engine_fixture fixture;
    struct run_reader reader;

    (void)state;
    run_ten(&fixture, MODE_SAME_CODE, &reader);

    /* plan, code, repair, told, varied, plan, code */
    assert_int_equal(fixture.answers, 7);
    assert_null(strstr(prompts[2], "REPEAT THEMSELVES"));
    assert_non_null(strstr(prompts[3], "\nTHE ATTEMPTS REPEAT THEMSELVES\nThe answer for attempt 2 "
                                       "was the code of attempt 1 again.\nFind out why"));
    assert_non_null(strstr(prompts[3], "return a + b + 0"));
    assert_non_null(strstr(prompts[4], "Leave the approach"));
    assert_null(strstr(prompts[4], "return a + b + 0"));
    assert_non_null(strstr(prompts[5], "The plan above has led there. Write another one"));
    assert_non_null(strstr(prompts[5], "\nPLAN\n1. Behaviours"));
    assert_non_null(strstr(prompts[6], "The plan is new."));
    done(&fixture, &reader);
}

static void same_failure_of_other_code_takes_the_same_steps(void **state)
{
    struct engine_fixture fixture;
    struct run_reader reader;
    char edges[256];

    (void)state;
    run_ten(&fixture, MODE_SAME_FAILURE, &reader);

    assert_int_equal(reader.result->cause, CAUSE(STALLED));
    assert_int_equal(reader.result->iterations, 5);
    list_edges(&reader, edges, sizeof(edges));
    assert_string_equal(edges, "evaluator>replan evaluator>stalled ");
    assert_non_null(strstr(reader.result->attempts[2]->feedback, "same failure as in attempt 1"));
    done(&fixture, &reader);
}

static void two_answers_in_turn_are_a_repetition(void **state)
{
    struct engine_fixture fixture;
    struct run_reader reader;

    (void)state;
    run_ten(&fixture, MODE_SEESAW, &reader);

    assert_int_equal(reader.result->cause, CAUSE(STALLED));
    assert_int_equal(reader.result->iterations, 2);
    done(&fixture, &reader);
}

static void run_that_finds_another_way_goes_on(void **state)
{
    struct engine_fixture fixture;
    struct run_reader reader;

    (void)state;
    run_ten(&fixture, MODE_RECOVERS, &reader);

    assert_int_equal(reader.result->status, STATUS(SUCCESS));
    assert_int_equal(reader.result->iterations, 2);
    assert_int_equal(reader.result->attempts[1]->iteration, 2);
    assert_non_null(strstr(reader.result->warnings[0], "was the code of attempt 1 again"));
    done(&fixture, &reader);
}

static void a_task_says_how_often_a_failure_may_be_the_same(void **state)
{
    Crisol__Agent__V1__StallRules rules = CRISOL__AGENT__V1__STALL_RULES__INIT;
    Crisol__Agent__V1__TaskTerms terms = CRISOL__AGENT__V1__TASK_TERMS__INIT;
    const struct agt_engine_options options = {.stall_same_failure = 3};
    struct engine_fixture fixture;
    struct run_reader reader;
    uint8_t packed[16];

    (void)state;
    rules.same_failure = 4;
    terms.stall = &rules;
    engine_fixture_start(&fixture, answer, judge, &options);
    fixture.mode = MODE_SAME_FAILURE;
    fixture.terms = packed;
    fixture.terms_size = crisol__agent__v1__task_terms__pack(&terms, packed);
    run_reader_read(&reader, engine_fixture_run(&fixture, 10));

    /* The fourth to the seventh take the four steps. */
    assert_int_equal(reader.result->cause, CAUSE(STALLED));
    assert_int_equal(reader.result->iterations, 7);
    done(&fixture, &reader);
}

static void a_service_may_run_the_same_code_again(void **state)
{
    const struct agt_engine_options options = {.stall_same_code = 3};
    struct engine_fixture fixture;
    struct run_reader reader;

    (void)state;
    engine_fixture_start(&fixture, answer, judge, &options);
    fixture.mode = MODE_SAME_CODE;
    run_reader_read(&reader, engine_fixture_run(&fixture, 10));

    assert_int_equal(reader.result->cause, CAUSE(STALLED));
    assert_int_equal(reader.result->iterations, 2);
    assert_int_equal(fixture.executions, 2);
    assert_non_null(strstr(reader.result->error_history[2], "code of attempt 1 again"));
    done(&fixture, &reader);
}

static int on_loaded(void *user, struct agt_run *take_run, const struct agt_run_spec *spec)
{
    (void)spec;
    *(struct agt_run **)user = take_run;
    return 0;
}

static void a_run_keeps_the_rules_that_it_began_with(void **state)
{
    struct agt_store *store = double_store_new();
    struct agt_engine_options options = {.store = store, .stall_same_failure = 100};
    struct engine_fixture fixture;
    struct run_reader reader;
    struct agt_run *run = NULL;

    (void)state;
    engine_fixture_start(&fixture, answer, judge, &options);
    fixture.mode = MODE_SAME_FAILURE;
    run_reader_read(&reader, engine_fixture_run(&fixture, 10));
    assert_int_equal(reader.result->cause, CAUSE(MAX_ITERATIONS));
    done(&fixture, &reader);
    double_store_cut(store, double_store_count(store) - 1);

    options.stall_same_failure = 0;
    engine_fixture_start(&fixture, answer, judge, &options);
    fixture.mode = MODE_SAME_FAILURE;
    assert_int_equal(agt_engine_load(fixture.engine, on_loaded, &run, NULL), 0);
    run_reader_read(&reader, run);
    assert_int_equal(reader.result->cause, CAUSE(MAX_ITERATIONS));
    assert_int_equal(reader.result->iterations, 10);
    done(&fixture, &reader);
    store->ops->free(store);
}

/* ---- a hint behind the last step ---- */

struct copy {
    uint8_t *packed;
    size_t size;
};

/* The store in memory calls back at once. */
static void on_export(void *user, uint8_t *take_packed, size_t size, int error)
{
    assert_int_equal(error, 0);
    *(struct copy *)user = (struct copy){take_packed, size};
}

static void on_written(struct agt_store_batch *batch, int error)
{
    (void)batch;
    assert_int_equal(error, 0);
}

/* The run goes on with a hint, as another one. */
static struct agt_run *go_on(struct engine_fixture *fixture, struct agt_store *store,
                             struct agt_run *run, const char *hint)
{
    struct rpc_status status = RPC_STATUS_INIT;
    struct agt_store_batch *batch = NULL;
    struct agt_run *hinted = NULL;
    struct copy copy = {NULL, 0};
    uint32_t seq = 0;

    assert_int_equal(agt_run_check_hint(run, hint, &seq, &status), 0);
    assert_int_equal(agt_run_export(store, run, on_export, &copy), 0);
    assert_int_equal(agt_fork_make(copy.packed, copy.size, seq, hint, &batch, &status), 0);
    batch->on_done = on_written;
    store->ops->append(store, batch);
    assert_int_equal(agt_engine_take_up(fixture->engine,
                                        &(struct agt_store_run){.run_id = batch->run_id,
                                                                .spec = batch->spec,
                                                                .spec_size = batch->spec_size},
                                        on_loaded, &hinted, NULL),
                     0);
    agt_fork_free(batch);
    free(copy.packed);
    return hinted;
}

/* Its export can be repeated, each prompt as it was. */
static void assert_repeats(struct agt_store *store, struct agt_run *run)
{
    struct agt_replay_report report;
    struct copy copy = {NULL, 0};

    assert_int_equal(agt_run_export(store, run, on_export, &copy), 0);
    assert_int_equal(agt_replay_run(copy.packed, copy.size, &report, NULL), 0);
    assert_int_equal(report.different_at, 0);
    free(copy.packed);
}

static struct agt_run *run_until_it_stalls(struct engine_fixture *fixture, struct agt_store *store,
                                           enum mode mode, int32_t *ret_iterations)
{
    const struct agt_engine_options options = {.store = store};
    struct run_reader reader;
    struct agt_run *run;

    engine_fixture_start(fixture, answer, judge, &options);
    fixture->mode = (int)mode;
    run = engine_fixture_run(fixture, 10);
    run_reader_read(&reader, agt_run_ref(run));
    assert_int_equal(reader.result->cause, CAUSE(STALLED));
    *ret_iterations = reader.result->iterations;
    run_reader_done(&reader);
    return run;
}

static void a_hint_goes_on_from_the_best_attempt_with_what_is_left(void **state)
{
    struct agt_store *store = double_store_new();
    struct engine_fixture fixture;
    struct run_reader reader;
    int32_t before = 0;
    struct agt_run *run = run_until_it_stalls(&fixture, store, MODE_HINTED, &before);
    uint32_t answers = fixture.answers;
    struct agt_run *hinted;

    (void)state;
    hinted = go_on(&fixture, store, run, HINT);
    run_reader_read(&reader, agt_run_ref(hinted));

    assert_int_equal(reader.result->status, STATUS(SUCCESS));
    assert_int_equal(reader.result->iterations, before + 1);
    assert_int_equal(fixture.answers, answers + 1);
    assert_int_equal(reader.result->usage->calls, answers + 1);
    assert_non_null(strstr(prompts[answers], "SAYS\n" HINT));
    assert_non_null(strstr(prompts[answers], "ATTEMPT 2 FAILED"));
    assert_non_null(strstr(prompts[answers], "return a + b + 2\n"));
    assert_int_equal(run_reader_count(&reader, EVENT(RESUMED)), 1);
    assert_string_equal(run_reader_find(&reader, EVENT(RESUMED), 0)->resumed->hint, HINT);
    assert_repeats(store, hinted);
    (void)agt_run_unref(hinted);
    (void)agt_run_unref(run);
    done(&fixture, &reader);
    store->ops->free(store);
}

/* The steps begin anew, and so does what follows them: another hint may come. */
static void a_hint_that_does_not_help_ends_as_before_and_may_be_followed_by_another(void **state)
{
    struct agt_store *store = double_store_new();
    struct engine_fixture fixture;
    struct run_reader reader;
    int32_t before = 0;
    struct agt_run *run = run_until_it_stalls(&fixture, store, MODE_SAME_CODE, &before);
    struct agt_run *again;

    (void)state;
    again = go_on(&fixture, store, run, "Think.");
    run_reader_read(&reader, agt_run_ref(again));
    assert_int_equal(reader.result->cause, CAUSE(STALLED));
    assert_int_equal(reader.result->iterations, before);
    run_reader_done(&reader);
    (void)agt_run_unref(run);
    run = go_on(&fixture, store, again, "Think harder.");
    run_reader_read(&reader, run);
    assert_int_equal(reader.result->cause, CAUSE(STALLED));
    assert_int_equal(run_reader_count(&reader, EVENT(RESUMED)), 2);
    (void)agt_run_unref(again);
    done(&fixture, &reader);
    store->ops->free(store);
}

static void a_hint_is_for_a_run_that_stalled(void **state)
{
    struct agt_store *store = double_store_new();
    const struct agt_engine_options options = {.store = store};
    struct rpc_status status = RPC_STATUS_INIT;
    struct engine_fixture fixture;
    struct run_reader reader;
    struct agt_run *run;
    uint32_t seq = 0;

    (void)state;
    engine_fixture_start(&fixture, NULL, NULL, &options);
    run = engine_fixture_run(&fixture, 0);
    run_reader_read(&reader, agt_run_ref(run));
    assert_int_equal(agt_run_check_hint(run, HINT, &seq, &status), -EBUSY);
    assert_int_equal(status.code, RPC_FAILED_PRECONDITION);
    status = (struct rpc_status)RPC_STATUS_INIT;
    assert_int_equal(agt_run_check_hint(run, " \n", &seq, &status), -EINVAL);
    assert_string_equal(status.violations[0].field, "hint");
    (void)agt_run_unref(run);
    done(&fixture, &reader);
    store->ops->free(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_task_says_how_often_a_failure_may_be_the_same),
        cmocka_unit_test(a_service_may_run_the_same_code_again),
        cmocka_unit_test(a_run_keeps_the_rules_that_it_began_with),
        cmocka_unit_test(same_code_is_not_run_again_and_ends_the_run_at_the_fourth_time),
        cmocka_unit_test(prompts_go_down_the_ladder),
        cmocka_unit_test(same_failure_of_other_code_takes_the_same_steps),
        cmocka_unit_test(two_answers_in_turn_are_a_repetition),
        cmocka_unit_test(run_that_finds_another_way_goes_on),
        cmocka_unit_test(a_hint_goes_on_from_the_best_attempt_with_what_is_left),
        cmocka_unit_test(a_hint_that_does_not_help_ends_as_before_and_may_be_followed_by_another),
        cmocka_unit_test(a_hint_is_for_a_run_that_stalled),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
