/* SPDX-License-Identifier: Apache-2.0 */
#include "common/buf.h"
#include "orchestrator/graph/prompt.h"
#include "orchestrator/graph/terms.h"
#include "rpc/json.h"
#include "rpc/status.h"
#include "tests/harness/test.h"

#include <stdlib.h>
#include <string.h>

#define LEVEL(name) CRISOL__AGENT__V1__VERIFICATION_LEVEL__VERIFICATION_LEVEL_##name

static Crisol__Agent__V1__TaskTerms *read_terms(const char *json)
{
    struct rpc_status status = RPC_STATUS_INIT;
    ProtobufCMessage *message = NULL;

    assert_int_equal(rpc_json_read(&crisol__agent__v1__task_terms__descriptor, json, strlen(json),
                                   &message, &status),
                     0);
    return (Crisol__Agent__V1__TaskTerms *)message;
}

static void check_as(const char *json, int level, bool is_stored, struct rpc_status *status)
{
    Crisol__Agent__V1__TaskTerms *terms = read_terms(json);
    size_t size = crisol__agent__v1__task_terms__get_packed_size(terms);
    uint8_t *packed = malloc(size + 1);

    assert_non_null(packed);
    (void)crisol__agent__v1__task_terms__pack(terms, packed);
    agt_terms_check_packed(packed, size, level, is_stored, status);
    free(packed);
    crisol__agent__v1__task_terms__free_unpacked(terms, NULL);
}

static void check(const char *json, int level, struct rpc_status *status)
{
    check_as(json, level, false, status);
}

#define DEEP "a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/"
#define CASE "{\"expression\":\"f()\",\"expected_json\":\"1\"}"

static void good_terms_are_taken(void **state)
{
    static const char *const texts[] = {
        "{}",
        "{\"cases\":[" CASE ",{\"expression\":\"g()\",\"raises\":\"ValueError\"}]}",
        "{\"input_files\":[{\"path\":\"data/ñ.csv\",\"text\":\"1\"},{\"path\":\"b.txt\"}]}",
        "{\"acceptance_tests\":[{\"path\":\"test_a.py\",\"text\":\"x\"}]}",
        "{\"input_files\":[{\"path\":\"" DEEP "b\"},{\"path\":\"solution.pyx\"}]}",
        "{\"input_files\":[{\"path\":\"lib/words.py\"},{\"path\":\"lib/__init__.py\"}]}",
        "{\"checks\":[{\"command\":[\"/bin/true\"],\"runtime\":\"shell\"}],\"language\":\"es\"}",
        "{\"stall\":{\"same_code\":2,\"same_failure\":100}}",
        "{\"prompts\":{\"planner\":\"You are the planner.\"},\"runtime\":\"pytest\"}",
        "{\"checks\":[{\"command\":[\"/bin/true\"],\"runtime\":\"c++\"}],"
        "\"runtime\":\"pytest:3-requests\"}",
    };

    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct rpc_status status = RPC_STATUS_INIT;

        check(texts[i], 0, &status);
        assert_int_equal(status.code, RPC_OK);
    }
}

/* Else the run would be gone with the update. */
static void what_an_older_program_let_in_is_still_read(void **state)
{
    static const char *const texts[] = {
        "{\"input_files\":[{\"path\":\"data\"},{\"path\":\"data/a.csv\"}]}",
        "{\"input_files\":[{\"path\":\"" DEEP "a/b\"}]}",
        "{\"cases\":[{\"expression\":\"f()\",\"raises\":\"json.JSONDecodeError\"}]}",
        "{\"cases\":[{\"expression\":\"f()\",\"expected_json\":\"{\\\"a\\\":1,\\\"a\\\":1}\"}]}",
        "{\"cases\":[{\"expression\":\"f()\",\"expected_json\":\"01\"}]}",
    };

    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct rpc_status status = RPC_STATUS_INIT;

        check_as(texts[i], 0, true, &status);
        assert_int_equal(status.code, RPC_OK);
        check(texts[i], 0, &status);
        assert_int_equal(status.code, RPC_INVALID_ARGUMENT);
    }
}

static void bad_terms_are_refused_by_name(void **state)
{
    static const struct {
        const char *json;
        int level;
        const char *field;
        const char *text;
    } cases[] = {
        {"{\"stall\":{\"same_code\":1}}", 0, "terms.stall.same_code", "2 to 100"},
        {"{\"stall\":{\"same_failure\":101}}", 0, "terms.stall.same_failure", "2 to 100"},
        {"{\"input_files\":[{\"path\":\"../x\"}]}", 0, "terms.input_files[0].path", "relative"},
        {"{\"input_files\":[{\"path\":\"/x\"}]}", 0, "terms.input_files[0].path", "relative"},
        {"{\"input_files\":[{\"path\":\"a//b\"}]}", 0, "terms.input_files[0].path", "relative"},
        {"{\"input_files\":[{\"path\":\"\"}]}", 0, "terms.input_files[0].path", "relative"},
        {"{\"input_files\":[{\"path\":\".crisol-x\"}]}", 0, "terms.input_files[0].path",
         "relative"},
        {"{\"input_files\":[{\"path\":\"os.py\"}]}", 0, "terms.input_files[0].path", "Python file"},
        {"{\"input_files\":[{\"path\":\"lib/conftest.py\"}]}", 0, "terms.input_files[0].path",
         "Python file"},
        {"{\"input_files\":[{\"path\":\"solution/__init__.py\"}]}", 0, "terms.input_files[0].path",
         "Python file"},
        {"{\"input_files\":[{\"path\":\"a\"},{\"path\":\"a\"}]}", 0, "terms.input_files[1].path",
         "twice"},
        {"{\"input_files\":[{\"path\":\"data\"},{\"path\":\"data/a.csv\"}]}", 0,
         "terms.input_files[1].path", "lies where 'data' is"},
        {"{\"input_files\":[{\"path\":\"test_a.py/x\"}],"
         "\"acceptance_tests\":[{\"path\":\"test_a.py\",\"text\":\"x\"}]}",
         0, "terms.input_files[0].path", "lies where 'test_a.py' is"},
        {"{\"input_files\":[{\"path\":\"solution.py/x\"}]}", 0, "terms.input_files[0].path",
         "lies where a file of the answer is"},
        {"{\"input_files\":[{\"path\":\"" DEEP "a/b\"}]}", 0, "terms.input_files[0].path",
         "more than 16 parts"},
        {"{\"acceptance_tests\":[{\"path\":\"test_solution.py\",\"text\":\"x\"}]}", 0,
         "terms.acceptance_tests[0].path", "must be test_"},
        {"{\"acceptance_tests\":[{\"path\":\"a/test_b.py\",\"text\":\"x\"}]}", 0,
         "terms.acceptance_tests[0].path", "in no folder"},
        {"{\"acceptance_tests\":[{\"path\":\"test_b.py\"}]}", 0, "terms.acceptance_tests[0].text",
         "empty"},
        {"{\"cases\":[{\"expected_json\":\"1\"}]}", 0, "terms.cases[0].expression", "required"},
        {"{\"cases\":[{\"expression\":\"f()\"}]}", 0, "terms.cases[0]", "exactly one"},
        {"{\"cases\":[{\"expression\":\"f()\",\"expected_json\":\"1\",\"raises\":\"E\"}]}", 0,
         "terms.cases[0]", "exactly one"},
        {"{\"cases\":[{\"expression\":\"f()\",\"expected_json\":\"hola\"}]}", 0,
         "terms.cases[0].expected_json", "no JSON value"},
        {"{\"cases\":[{\"expression\":\"f()\",\"expected_json\":\"{\\\"a\\\":1,\\\"a\\\":2}\"}]}",
         0, "terms.cases[0].expected_json", "a key twice"},
        {"{\"cases\":[{\"expression\":\"f()\",\"raises\":\"json.JSONDecodeError\"}]}", 0,
         "terms.cases[0].raises", "leave its module out"},
        {"{\"cases\":[" CASE "]}", LEVEL(STUBS), "verify", "is STUBS"},
        {"{}", LEVEL(ORACLE), "verify", "at least one into terms.cases"},
        {"{\"checks\":[{}]}", 0, "terms.checks[0].command", "absolute path"},
        {"{\"checks\":[{\"command\":[\"true\"]}]}", 0, "terms.checks[0].command", "absolute path"},
        {"{\"runtime\":\"../x\"}", 0, "terms.runtime", "no name"},
        {"{\"language\":\"fr\"}", 0, "terms.language", "'fr'"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct rpc_status status = RPC_STATUS_INIT;

        check(cases[i].json, cases[i].level, &status);
        assert_int_equal(status.code, RPC_INVALID_ARGUMENT);
        assert_int_equal(status.violation_count, 1);
        assert_string_equal(status.violations[0].field, cases[i].field);
        assert_non_null(strstr(status.violations[0].description, cases[i].text));
    }
}

/* The kernel takes no longer one. */
static void a_long_argument_of_a_check_is_refused(void **state)
{
    Crisol__Agent__V1__TaskTerms *terms =
        read_terms("{\"checks\":[{\"command\":[\"/bin/true\",\"\"]}]}");
    struct rpc_status status = RPC_STATUS_INIT;
    char *argument = calloc(1, 131073);
    uint8_t *packed;
    size_t size;

    (void)state;
    assert_non_null(argument);
    memset(argument, 'a', 131072);
    free(terms->checks[0]->command[1]);
    terms->checks[0]->command[1] = argument;
    size = crisol__agent__v1__task_terms__get_packed_size(terms);
    packed = malloc(size);
    assert_non_null(packed);
    (void)crisol__agent__v1__task_terms__pack(terms, packed);
    agt_terms_check_packed(packed, size, 0, false, &status);
    assert_int_equal(status.violation_count, 1);
    assert_string_equal(status.violations[0].field, "terms.checks[0].command");
    free(packed);
    crisol__agent__v1__task_terms__free_unpacked(terms, NULL);
}

static void cases_choose_the_level(void **state)
{
    Crisol__Agent__V1__TaskTerms *terms = read_terms("{\"cases\":[" CASE "]}");

    (void)state;
    assert_int_equal(agt_terms_level(NULL, 0), LEVEL(STUBS));
    assert_int_equal(agt_terms_level(NULL, LEVEL(CANARY)), LEVEL(CANARY));
    assert_int_equal(agt_terms_level(terms, 0), LEVEL(ORACLE));
    crisol__agent__v1__task_terms__free_unpacked(terms, NULL);
}

static void model_is_shown_files_and_no_case(void **state)
{
    Crisol__Agent__V1__TaskTerms *terms = read_terms(
        "{\"cases\":[{\"name\":\"hidden-name\",\"expression\":\"hidden()\",\"expected_json\":\"7\"}],"
        "\"input_files\":[{\"path\":\"a.csv\",\"text\":\"1,2\\n\"}],"
        "\"acceptance_tests\":[{\"path\":\"test_a.py\",\"text\":\"def test_x(): pass\\n\"}],"
        "\"prompts\":{\"generator\":\"Write it.\"}}");
    const struct agt_prompt prompt = {.task = "sum", .terms = terms, .plan = "1. x"};
    struct cr_buf buf;

    (void)state;
    cr_buf_init(&buf, AGT_PROMPT_MAX);
    assert_int_equal(agt_prompt_add(&prompt, &buf), 0);
    assert_non_null(strstr(cr_buf_str(&buf), "a.csv (4 bytes)\n````text\n1,2\n````\n"));
    assert_non_null(strstr(cr_buf_str(&buf), "test_a.py\n````python\ndef test_x(): pass\n````\n"));
    assert_null(strstr(cr_buf_str(&buf), "hidden"));
    assert_string_equal(agt_prompt_system(AGT_PROMPT_CODE, terms), "Write it.");
    assert_non_null(strstr(agt_prompt_system(AGT_PROMPT_REPAIR, terms), "You are the generator"));
    cr_buf_done(&buf);
    crisol__agent__v1__task_terms__free_unpacked(terms, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_terms_are_taken),
        cmocka_unit_test(what_an_older_program_let_in_is_still_read),
        cmocka_unit_test(bad_terms_are_refused_by_name),
        cmocka_unit_test(a_long_argument_of_a_check_is_refused),
        cmocka_unit_test(cases_choose_the_level),
        cmocka_unit_test(model_is_shown_files_and_no_case),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
