/* SPDX-License-Identifier: Apache-2.0 */
#include "crisol/agent/v1/agent.pb-c.h"
#include "rpc/json.h"
#include "tests/harness/engine_fixture.h"
#include "tests/harness/run_reader.h"
#include "tests/harness/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STATUS(name) CRISOL__AGENT__V1__RUN_STATUS__RUN_STATUS_##name
#define CAUSE(name) CRISOL__AGENT__V1__FAILURE_CAUSE__FAILURE_CAUSE_##name
#define ATTEMPT(name) CRISOL__AGENT__V1__ATTEMPT_CAUSE__ATTEMPT_CAUSE_##name
#define LEVEL(name) CRISOL__AGENT__V1__VERIFICATION_LEVEL__VERIFICATION_LEVEL_##name

enum mode {
    MODE_HONEST,
    MODE_WRONG,     /* a case gives another value */
    MODE_FORGED,    /* somebody else writes an answer, too */
    MODE_OWN_FAILS, /* a command of the task does not succeed */
    MODE_SPARED,    /* what must fail does so in the tests of the answer alone */
};

#define TERMS                                                                                        \
    "{\"cases\":[{\"name\":\"two and three\",\"expression\":\"add(2, 3)\",\"expected_json\":\"5\"}," \
    "{\"name\":\"text\",\"expression\":\"add('a', 1)\",\"raises\":\"TypeError\"}],"                  \
    "\"input_files\":[{\"path\":\"data.csv\",\"text\":\"1\"}],"                                      \
    "\"acceptance_tests\":[{\"path\":\"test_accept.py\",\"text\":\"def test_x(): pass\"}],"          \
    "\"checks\":[{\"name\":\"style\",\"command\":[\"/usr/bin/style\",\"solution.py\"]}]}"

static bool has_bad_files; /* on the double's thread, while the test waits */

static bool has_file(const Crisol__Sandbox__V1__ExecuteRequest *request, const char *path)
{
    for (size_t i = 0; i < request->n_files; i++) {
        if (strcmp(request->files[i]->path, path) == 0)
            return request->files[i]->read_only;
    }
    return false;
}

static void play(void *user, const Crisol__Sandbox__V1__ExecuteRequest *request,
                 struct double_execution *ret_execution)
{
    static const char *const right[] = {"value 5", "raised [\"TypeError\", \"Exception\"]"};
    static const char *const wrong[] = {"value 6", "raised [\"KeyError\"]"};
    static const char *const forged[] = {"value 5\nforged", "raised [\"TypeError\"]"};
    struct engine_fixture *fixture = user;
    enum double_check check = double_check_of(request);

    fixture->executions++;
    has_bad_files |= !has_file(request, "data.csv") ||
                     has_file(request, "test_accept.py") == (check == DOUBLE_CHECK_ORACLE);
    if (check == DOUBLE_CHECK_NONE)
        double_pass(NULL, request, ret_execution);
    else if (check == DOUBLE_CHECK_ORACLE)
        double_answer_cases(request,
                            fixture->mode == MODE_WRONG    ? wrong
                            : fixture->mode == MODE_FORGED ? forged
                                                           : right,
                            2, ret_execution);
    else
        double_answer_check(request, ret_execution);
    if (check == DOUBLE_CHECK_CANARY) {
        assert_int_equal(ret_execution->failed, 2); /* one in each file of tests */
        ret_execution->failed -= fixture->mode == MODE_SPARED;
    }
    if (check == DOUBLE_CHECK_OWN && fixture->mode == MODE_OWN_FAILS) {
        ret_execution->exit_code = 7;
        ret_execution->stdout_text = "line 2: too long\n";
    }
}

/* Runs one attempt with the terms; the level is the one that they choose. */
static void run_one(struct engine_fixture *fixture, enum mode mode, struct run_reader *reader)
{
    struct rpc_status status = RPC_STATUS_INIT;
    ProtobufCMessage *terms = NULL;
    uint8_t packed[1024];

    assert_int_equal(rpc_json_read(&crisol__agent__v1__task_terms__descriptor, TERMS, strlen(TERMS),
                                   &terms, &status),
                     0);
    has_bad_files = false;
    engine_fixture_start(fixture, NULL, play, NULL);
    double_sandbox_set_checks(fixture->sandbox, true);
    assert_true(protobuf_c_message_get_packed_size(terms) <= sizeof(packed));
    fixture->terms_size = protobuf_c_message_pack(terms, packed);
    fixture->terms = packed;
    fixture->verify = 0;
    fixture->mode = (int)mode;
    run_reader_read(reader, engine_fixture_run(fixture, 1));
    protobuf_c_message_free_unpacked(terms, NULL);
}

static void done(struct engine_fixture *fixture, struct run_reader *reader)
{
    assert_false(has_bad_files);
    run_reader_done(reader);
    engine_fixture_stop(fixture);
}

static void cases_that_hold_reach_oracle(void **state)
{
    struct engine_fixture fixture;
    struct run_reader reader;

    (void)state;
    run_one(&fixture, MODE_HONEST, &reader);

    assert_int_equal(reader.result->status, STATUS(SUCCESS));
    assert_int_equal(reader.result->verification->level, LEVEL(ORACLE));
    assert_int_equal(reader.result->verification->n_checks, 8);
    assert_string_equal(reader.result->verification->checks[1]->name, "own: style");
    assert_string_equal(reader.result->verification->checks[7]->summary, "2 of 2 cases hold");
    /* The tests, the canary, the own check, two stubs, one mutant, the cases. */
    assert_int_equal(fixture.executions, 7);
    done(&fixture, &reader);
}

/* Whoever patches the runner may do it for the task's own tests only. */
static void failures_of_acceptance_tests_have_to_be_seen(void **state)
{
    struct engine_fixture fixture;
    struct run_reader reader;

    (void)state;
    run_one(&fixture, MODE_SPARED, &reader);

    assert_int_equal(reader.result->attempts[0]->cause, ATTEMPT(TAMPER));
    assert_int_equal(reader.result->cause, CAUSE(TAMPER));
    done(&fixture, &reader);
}

static void case_that_does_not_hold_refuses_and_stays_hidden(void **state)
{
    struct engine_fixture fixture;
    struct run_reader reader;
    const Crisol__Agent__V1__Attempt *attempt;

    (void)state;
    run_one(&fixture, MODE_WRONG, &reader);

    assert_int_equal(reader.result->cause, CAUSE(MAX_ITERATIONS));
    attempt = reader.result->attempts[0];
    assert_int_equal(attempt->cause, ATTEMPT(ORACLE));
    assert_non_null(strstr(attempt->feedback, "2 of 2 cases do not hold: two and three (another "
                                              "value); text (raised KeyError)"));
    assert_null(strstr(attempt->feedback, "add(2, 3)"));
    assert_null(strstr(attempt->feedback, "TypeError"));
    done(&fixture, &reader);

    run_one(&fixture, MODE_FORGED, &reader);
    assert_int_equal(reader.result->attempts[0]->cause, ATTEMPT(TAMPER));
    assert_int_equal(reader.result->cause, CAUSE(TAMPER));
    done(&fixture, &reader);
}

static void own_check_that_fails_refuses_and_shows_its_output(void **state)
{
    struct engine_fixture fixture;
    struct run_reader reader;
    const Crisol__Agent__V1__Attempt *attempt;

    (void)state;
    run_one(&fixture, MODE_OWN_FAILS, &reader);

    attempt = reader.result->attempts[0];
    assert_int_equal(attempt->cause, ATTEMPT(CHECK));
    assert_non_null(strstr(attempt->summary, "not the task's own check (own: style): exit status"));
    assert_non_null(strstr(attempt->feedback, "line 2: too long"));
    done(&fixture, &reader);
}

/* ---- instructions and runtime of the task ---- */

#define SAID_MAX 4

/* What the doubles were asked with, on their threads, while the test waits. */
static char said[SAID_MAX][64];
static size_t said_count;
static char runtime[32];

static void listen(void *user, const struct agt_model_request *request,
                   struct double_answer *ret_answer)
{
    (void)user;
    assert_true(said_count < SAID_MAX);
    (void)snprintf(said[said_count++], sizeof(said[0]), "%s", request->system);
    double_solve(NULL, request, ret_answer);
}

static void fail_once(void *user, const Crisol__Sandbox__V1__ExecuteRequest *request,
                      struct double_execution *ret_execution)
{
    struct engine_fixture *fixture = user;

    (void)snprintf(runtime, sizeof(runtime), "%s", request->runtime);
    double_pass(NULL, request, ret_execution);
    if (fixture->executions++ == 0) {
        ret_execution->exit_code = 1;
        ret_execution->failed = 1;
    }
}

static void instructions_and_runtime_of_the_task_take_the_place_of_ours(void **state)
{
    char texts[3][16] = {"Plan as I say.", "Write as I say.", "Mend as I say."};
    char name[] = "pytest-data";
    Crisol__Agent__V1__PromptOverrides prompts = CRISOL__AGENT__V1__PROMPT_OVERRIDES__INIT;
    Crisol__Agent__V1__TaskTerms terms = CRISOL__AGENT__V1__TASK_TERMS__INIT;
    struct engine_fixture fixture;
    struct run_reader reader;
    uint8_t packed[256];

    (void)state;
    said_count = 0;
    prompts.planner = texts[0];
    prompts.generator = texts[1];
    prompts.repair = texts[2];
    terms.prompts = &prompts;
    terms.runtime = name;
    assert_true(crisol__agent__v1__task_terms__get_packed_size(&terms) <= sizeof(packed));
    engine_fixture_start(&fixture, listen, fail_once, NULL);
    fixture.terms_size = crisol__agent__v1__task_terms__pack(&terms, packed);
    fixture.terms = packed;
    run_reader_read(&reader, engine_fixture_run(&fixture, 2));

    assert_int_equal(reader.result->status, STATUS(SUCCESS));
    assert_int_equal(said_count, 3);
    for (size_t i = 0; i < said_count; i++)
        assert_string_equal(said[i], texts[i]);
    assert_string_equal(runtime, name);
    run_reader_done(&reader);
    engine_fixture_stop(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cases_that_hold_reach_oracle),
        cmocka_unit_test(failures_of_acceptance_tests_have_to_be_seen),
        cmocka_unit_test(case_that_does_not_hold_refuses_and_stays_hidden),
        cmocka_unit_test(own_check_that_fails_refuses_and_shows_its_output),
        cmocka_unit_test(instructions_and_runtime_of_the_task_take_the_place_of_ours),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
