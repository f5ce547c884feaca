/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "crisol/agent/v1/agent.pb-c.h"
#include "tests/harness/engine_fixture.h"
#include "tests/harness/run_reader.h"
#include "tests/harness/test.h"

#include <string.h>

#define EVENT(name) CRISOL__AGENT__V1__RUN_EVENT__EVENT_##name
#define STATUS(name) CRISOL__AGENT__V1__RUN_STATUS__RUN_STATUS_##name
#define CAUSE(name) CRISOL__AGENT__V1__FAILURE_CAUSE__FAILURE_CAUSE_##name
#define ATTEMPT(name) CRISOL__AGENT__V1__ATTEMPT_CAUSE__ATTEMPT_CAUSE_##name
#define LEVEL(name) CRISOL__AGENT__V1__VERIFICATION_LEVEL__VERIFICATION_LEVEL_##name
#define OUTCOME(name) CRISOL__AGENT__V1__CHECK_OUTCOME__CHECK_OUTCOME_##name
#define VERDICT(name) CRISOL__SANDBOX__V1__VERDICT_CODE__VERDICT_CODE_##name

/* What the double does with the check that the case is about; `mode` of the fixture. */
enum mode {
    MODE_HONEST,
    MODE_PATCHED,     /* the canary does not fail */
    MODE_FLAKY,       /* another test fails beside the canary */
    MODE_SLOW,        /* the canary runs out of time, twice */
    MODE_ALWAYS_SLOW, /* it always does */
    MODE_RAISE,       /* all pass when functions raise */
    MODE_RETURN,      /* all pass when functions return None */
    MODE_SKIP,        /* the tests skip when functions raise */
    MODE_FAULT,       /* each check fails once for the sandbox's own reasons */
    MODE_GONE,        /* the sandbox fails for every check */
    MODE_WEAK,        /* all pass with any small change */
    MODE_HELD,        /* no check ends until it is cancelled */
};

#define SEEN_MAX 64

/* sandboxd answers a request that it knows from memory: no two of a run may have one id. */
static char seen_ids[SEEN_MAX][72];
static bool has_same_ids;

static uint32_t wall_limit_ms; /* of the tests; 0: not told */
static uint32_t stub_wall_ms;  /* asked for by the last run on emptied functions */
static uint32_t stopping;      /* runs that were to stop at the first test that fails */

/* On the double's thread, while the test waits. Of what has to be whole, none may stop. */
static void note_arguments(enum double_check check,
                           const Crisol__Sandbox__V1__ExecuteRequest *request)
{
    bool may_stop =
        check == DOUBLE_CHECK_RAISE || check == DOUBLE_CHECK_RETURN || check == DOUBLE_CHECK_MUTANT;

    assert_int_equal(request->n_args, may_stop ? 1 : 0);
    if (may_stop)
        assert_string_equal(request->args[0], "-x");
    stopping += may_stop;
}

/* As above. */
static void note_id(uint32_t count, const char *id)
{
    for (uint32_t i = 0; i < count && i < SEEN_MAX; i++)
        has_same_ids |= strcmp(seen_ids[i], id) == 0;
    if (count < SEEN_MAX)
        (void)memccpy(seen_ids[count], id, '\0', sizeof(seen_ids[0]));
}

/* As if the check had changed nothing. */
static bool passes(enum double_check check, enum mode mode)
{
    return (check == DOUBLE_CHECK_CANARY && mode == MODE_PATCHED) ||
           (check == DOUBLE_CHECK_RAISE && mode == MODE_RAISE) ||
           (check == DOUBLE_CHECK_RETURN && mode == MODE_RETURN) ||
           (check == DOUBLE_CHECK_MUTANT && mode == MODE_WEAK);
}

static bool is_slow(struct engine_fixture *fixture, enum mode mode)
{
    return mode == MODE_ALWAYS_SLOW || (mode == MODE_SLOW && fixture->answers++ < 2);
}

/* What the mode makes of a check that came out as it should. */
static void spoil(struct engine_fixture *fixture, enum double_check check,
                  struct double_execution *ret_execution)
{
    enum mode mode = (enum mode)fixture->mode;
    bool is_canary = check == DOUBLE_CHECK_CANARY;

    if (passes(check, mode))
        *ret_execution = (struct double_execution){.passed = 3};
    else if (is_canary && mode == MODE_FLAKY)
        ret_execution->errors = 1;
    else if (is_canary && is_slow(fixture, mode))
        ret_execution->verdict = VERDICT(WALL_TIME_LIMIT);
    else if (check == DOUBLE_CHECK_RAISE && mode == MODE_SKIP)
        *ret_execution = (struct double_execution){.skipped = 3};
    else if (mode == MODE_GONE || (mode == MODE_FAULT && fixture->executions <= 3))
        ret_execution->code = RPC_UNAVAILABLE;
    ret_execution->is_held = mode == MODE_HELD;
}

static void play(void *user, const Crisol__Sandbox__V1__ExecuteRequest *request,
                 struct double_execution *ret_execution)
{
    struct engine_fixture *fixture = user;
    enum double_check check = double_check_of(request);

    note_arguments(check, request);
    if (check == DOUBLE_CHECK_NONE) {
        double_pass(NULL, request, ret_execution);
        ret_execution->wall_limit_ms = wall_limit_ms;
        return;
    }
    if (check == DOUBLE_CHECK_RAISE || check == DOUBLE_CHECK_RETURN)
        stub_wall_ms = request->limits->wall_time_ms;
    note_id(fixture->executions, request->request_id);
    fixture->executions++;
    double_answer_check(request, ret_execution);
    spoil(fixture, check, ret_execution);
}

#define ANSWER(tests, solution)                                                                    \
    "````python path=test_solution.py\nfrom solution import add\n\n" tests                         \
    "````\n\n````python path=solution.py\n" solution "````\n"
#define STRONG                                                                                     \
    "def test_a():\n    assert add(1, 1) == 2\n\ndef test_b():\n    assert add(0, 1) == 1\n"
#define WEAK "def test_a():\n    assert add(1, 1) == 2\n"
#define CORRECTED                                                                                  \
    "def test_a():\n    assert add(1, 1) == 3\n\ndef test_b():\n    assert add(0, 1) == 1\n"
#define BODY "def add(a, b):\n    return a + b\n"

/* Three small changes can be made to it. */
static void write_sum(void *user, const struct agt_model_request *request,
                      struct double_answer *ret_answer)
{
    double_solve(user, request, ret_answer);
    if (strstr(ret_answer->text, "path="))
        ret_answer->text = ANSWER(STRONG, "def add(a, b):\n    return a + b * 1\n");
}

/* Runs one attempt; level 0: the default. */
static void run_at(struct engine_fixture *fixture, enum mode mode, int level,
                   struct run_reader *reader)
{
    engine_fixture_start(fixture, mode == MODE_WEAK ? write_sum : NULL, play, NULL);
    double_sandbox_set_checks(fixture->sandbox, true);
    fixture->mode = (int)mode;
    fixture->verify = level;
    run_reader_read(reader, engine_fixture_run(fixture, 1));
}

static void run_one(struct engine_fixture *fixture, enum mode mode, struct run_reader *reader)
{
    run_at(fixture, mode, 0, reader);
}

static void done(struct engine_fixture *fixture, struct run_reader *reader)
{
    assert_false(has_same_ids);
    run_reader_done(reader);
    engine_fixture_stop(fixture);
}

static void honest_tests_reach_stubs_and_the_result_names_each_check(void **state)
{
    struct engine_fixture fixture;
    struct run_reader reader;
    const Crisol__Agent__V1__Verification *shown;

    (void)state;
    run_one(&fixture, MODE_HONEST, &reader);

    shown = reader.result->verification;
    assert_int_equal(reader.result->status, STATUS(SUCCESS));
    assert_int_equal(shown->level, LEVEL(STUBS));
    assert_int_equal(shown->level_requested, LEVEL(STUBS));
    assert_int_equal(shown->n_checks, 4);
    for (size_t i = 0; i < shown->n_checks; i++)
        assert_int_equal(shown->checks[i]->outcome, OUTCOME(SHOWN));
    assert_int_equal(run_reader_count(&reader, EVENT(VERIFICATION_CHECK)), 4);
    assert_int_equal(run_reader_count(&reader, EVENT(SANDBOX_RESULT)), 1);
    assert_int_equal(fixture.executions, 3);
    assert_non_null(strstr(reader.result->final_response, "level STUBS"));
    done(&fixture, &reader);
}

/* An operator may allow no more than what the tests had. */
static void stubs_are_never_given_more_time_than_is_allowed(void **state)
{
    static const struct {
        uint32_t limit_ms;
        bool is_limited;
    } cases[] = {{0, true}, {10000, true}, {2000, false}};

    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(cases); i++) {
        struct engine_fixture fixture;
        struct run_reader reader;

        wall_limit_ms = cases[i].limit_ms;
        run_one(&fixture, MODE_HONEST, &reader);
        assert_int_equal(stub_wall_ms > 0, cases[i].is_limited);
        done(&fixture, &reader);
    }
    wall_limit_ms = 0;
}

static void level_decides_which_checks_are_made(void **state)
{
    static const struct {
        int verify;
        uint32_t executions;
    } cases[] = {{LEVEL(OFF), 0},
                 {LEVEL(EVIDENCE), 0},
                 {LEVEL(CANARY), 1},
                 {LEVEL(STUBS), 3},
                 {LEVEL(MUTANTS), 4}};

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct engine_fixture fixture;
        struct run_reader reader;

        engine_fixture_start(&fixture, NULL, play, NULL);
        double_sandbox_set_checks(fixture.sandbox, true);
        fixture.mode = MODE_HONEST;
        fixture.verify = cases[i].verify;
        stopping = 0;
        run_reader_read(&reader, engine_fixture_run(&fixture, 1));
        assert_int_equal(reader.result->status, STATUS(SUCCESS));
        assert_int_equal(reader.result->verification->level, cases[i].verify);
        assert_int_equal(fixture.executions, cases[i].executions);
        assert_int_equal(stopping, cases[i].executions > 1 ? cases[i].executions - 1 : 0);
        done(&fixture, &reader);
    }
}

static void refuted_attempts_fail_with_their_cause(void **state)
{
    static const struct {
        enum mode mode;
        Crisol__Agent__V1__AttemptCause attempt;
        Crisol__Agent__V1__FailureCause cause;
        const char *text;
    } cases[] = {
        {MODE_PATCHED, ATTEMPT(TAMPER), CAUSE(TAMPER), "does not report failures"},
        {MODE_FLAKY, ATTEMPT(FLAKY), CAUSE(MAX_ITERATIONS), "not deterministic"},
        {MODE_ALWAYS_SLOW, ATTEMPT(FLAKY), CAUSE(MAX_ITERATIONS), "ended by a limit"},
        {MODE_RAISE, ATTEMPT(VACUOUS_TESTS), CAUSE(VACUOUS_TESTS), "solution.py raises"},
        {MODE_RETURN, ATTEMPT(VACUOUS_TESTS), CAUSE(VACUOUS_TESTS), "returns None"},
        {MODE_SKIP, ATTEMPT(VACUOUS_TESTS), CAUSE(VACUOUS_TESTS), "prove nothing"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct engine_fixture fixture;
        struct run_reader reader;

        run_one(&fixture, cases[i].mode, &reader);
        assert_int_equal(reader.result->status, STATUS(FAILED));
        assert_int_equal(reader.result->cause, cases[i].cause);
        assert_int_equal(reader.result->iterations, 1);
        assert_int_equal(reader.result->attempts[0]->cause, cases[i].attempt);
        assert_false(reader.result->attempts[0]->passed);
        assert_non_null(strstr(reader.result->attempts[0]->summary, cases[i].text));
        assert_non_null(strstr(reader.result->attempts[0]->feedback, "Cause: "));
        assert_int_equal(reader.result->verification->level, LEVEL(OFF));
        done(&fixture, &reader);
    }
}

static void tests_that_notice_no_small_change_are_refused(void **state)
{
    struct engine_fixture fixture;
    struct run_reader reader;
    const Crisol__Agent__V1__Verification *shown;

    (void)state;
    run_at(&fixture, MODE_WEAK, LEVEL(MUTANTS), &reader);

    assert_int_equal(reader.result->status, STATUS(FAILED));
    assert_int_equal(reader.result->cause, CAUSE(VACUOUS_TESTS));
    assert_int_equal(reader.result->attempts[0]->cause, ATTEMPT(WEAK_TESTS));
    assert_non_null(strstr(reader.result->attempts[0]->feedback, "line 2, '+' becomes '-'"));
    shown = reader.result->attempts[0]->verification;
    assert_int_equal(shown->n_checks, 8);
    assert_string_equal(shown->checks[4]->name, "mutant: line 2, '+' becomes '-'");
    assert_int_equal(shown->checks[6]->outcome, OUTCOME(UNNOTICED));
    assert_int_equal(shown->checks[7]->outcome, OUTCOME(REFUTED));
    done(&fixture, &reader);

    run_at(&fixture, MODE_WEAK, LEVEL(STUBS), &reader);
    assert_int_equal(reader.result->status, STATUS(SUCCESS));
    done(&fixture, &reader);
}

static void canary_that_runs_out_of_time_is_run_again(void **state)
{
    struct engine_fixture fixture;
    struct run_reader reader;

    (void)state;
    run_one(&fixture, MODE_SLOW, &reader);

    assert_int_equal(reader.result->status, STATUS(SUCCESS));
    assert_int_equal(fixture.executions, 5);
    done(&fixture, &reader);
}

static void faults_of_the_sandbox_are_tried_again_and_not_counted(void **state)
{
    struct engine_fixture fixture;
    struct run_reader reader;

    (void)state;
    run_one(&fixture, MODE_FAULT, &reader);
    assert_int_equal(reader.result->status, STATUS(SUCCESS));
    assert_int_equal(reader.result->iterations, 1);
    assert_int_equal(fixture.executions, 6);
    done(&fixture, &reader);

    run_one(&fixture, MODE_GONE, &reader);
    assert_int_equal(reader.result->status, STATUS(FAILED));
    assert_int_equal(reader.result->cause, CAUSE(SANDBOX_UNAVAILABLE));
    assert_int_equal(reader.result->iterations, 0);
    done(&fixture, &reader);
}

static void cancel_during_checks_ends_them_all(void **state)
{
    struct engine_fixture fixture;
    struct run_reader reader;
    struct agt_run *run;

    (void)state;
    engine_fixture_start(&fixture, NULL, play, NULL);
    double_sandbox_set_checks(fixture.sandbox, true);
    fixture.mode = MODE_HELD;
    fixture.verify = 0;
    run = engine_fixture_run(&fixture, 1);
    run_reader_wait_for(run, EVENT(VERIFICATION_CHECK)); /* equality; the others are held */
    agt_run_cancel(run);
    run_reader_read(&reader, run);

    assert_int_equal(reader.result->status, STATUS(CANCELLED));
    assert_int_equal(double_sandbox_live_calls(fixture.sandbox), 0);
    done(&fixture, &reader);
}

static void deadline_during_checks_ends_them_all(void **state)
{
    static const struct {
        struct agt_engine_options options;
        const char *text;
    } cases[] = {
        {{.run_timeout_ms = 100, .retry_base_ms = 1}, "time for the run is over"},
        {{.node_timeout_ms = 100, .retry_base_ms = 1}, "Node 'evaluator' took longer than it may"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct engine_fixture fixture;
        struct run_reader reader;

        engine_fixture_start(&fixture, NULL, play, &cases[i].options);
        double_sandbox_set_checks(fixture.sandbox, true);
        fixture.mode = MODE_HELD;
        fixture.verify = 0;
        run_reader_read(&reader, engine_fixture_run(&fixture, 1));

        assert_int_equal(reader.result->status, STATUS(FAILED));
        assert_int_equal(reader.result->cause, CAUSE(DEADLINE));
        assert_non_null(strstr(reader.result->final_response, cases[i].text));
        done(&fixture, &reader);
    }
}

/* A second answer with other tests: weaker ones in mode 0, corrected ones in mode 1. */
static void change_tests(void *user, const struct agt_model_request *request,
                         struct double_answer *ret_answer)
{
    struct engine_fixture *fixture = user;

    double_solve(user, request, ret_answer);
    if (!strstr(ret_answer->text, "path="))
        return;
    ret_answer->text = ANSWER(STRONG, BODY);
    if (fixture->answers++ > 0)
        ret_answer->text =
            fixture->mode == 0 ? ANSWER(WEAK, BODY "T = 1\n") : ANSWER(CORRECTED, BODY);
}

static void fail_first(void *user, const Crisol__Sandbox__V1__ExecuteRequest *request,
                       struct double_execution *ret_execution)
{
    struct engine_fixture *fixture = user;

    double_pass(NULL, request, ret_execution);
    if (fixture->executions++ > 0)
        return;
    ret_execution->exit_code = 1;
    ret_execution->passed = 2;
    ret_execution->failed = 1;
}

static void tests_are_frozen_and_changes_audited(void **state)
{
    static const struct {
        int mode;
        bool accepted;
        const char *tests;
        const char *warning;
    } cases[] = {
        {0, false, "add(0, 1) == 1", "those of attempt 1 were kept. test_b is missing"},
        {1, true, "add(1, 1) == 3", "Attempt 2 changed the tests: 2 test functions"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const Crisol__Agent__V1__TestChange *change;
        struct engine_fixture fixture;
        struct run_reader reader;

        engine_fixture_start(&fixture, change_tests, fail_first, NULL);
        fixture.mode = cases[i].mode;
        fixture.verify = 0;
        run_reader_read(&reader, engine_fixture_run(&fixture, 2));
        assert_int_equal(reader.result->status, STATUS(SUCCESS));
        assert_null(reader.result->attempts[0]->test_change);
        change = reader.result->attempts[1]->test_change;
        assert_non_null(change);
        assert_int_equal(change->accepted, cases[i].accepted);
        assert_int_equal(change->tests_before, 2);
        assert_non_null(strstr(reader.result->files[1]->text, cases[i].tests));
        assert_non_null(strstr(reader.result->warnings[0], cases[i].warning));
        done(&fixture, &reader);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(honest_tests_reach_stubs_and_the_result_names_each_check),
        cmocka_unit_test(stubs_are_never_given_more_time_than_is_allowed),
        cmocka_unit_test(level_decides_which_checks_are_made),
        cmocka_unit_test(refuted_attempts_fail_with_their_cause),
        cmocka_unit_test(tests_that_notice_no_small_change_are_refused),
        cmocka_unit_test(canary_that_runs_out_of_time_is_run_again),
        cmocka_unit_test(faults_of_the_sandbox_are_tried_again_and_not_counted),
        cmocka_unit_test(cancel_during_checks_ends_them_all),
        cmocka_unit_test(deadline_during_checks_ends_them_all),
        cmocka_unit_test(tests_are_frozen_and_changes_audited),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
