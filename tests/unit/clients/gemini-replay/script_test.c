/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/gemini-replay/script.h"
#include "common/auto.h"
#include "common/err.h"
#include "tests/harness/test.h"

#include <stdlib.h>
#include <string.h>

/* Loads a script from a file that exists only for this. */
static int load(const char *json, struct replay_scripts *ret_scripts, struct cr_err *err)
{
    char path[TEST_PATH_SIZE];
    int fd = test_file_make(path, sizeof(path));
    int r;

    assert_int_equal(write(fd, json, strlen(json)), (ssize_t)strlen(json));
    (void)close(fd);
    r = replay_scripts_load(path, ret_scripts, err);
    (void)unlink(path);
    return r;
}

static const char *find(const struct replay_scripts *scripts, const char *request)
{
    const struct replay_answer *answer = replay_scripts_find(scripts, request);

    return answer ? answer->text : NULL;
}

static void the_first_answer_that_fits_wins(void **state)
{
    static const char json[] =
        "{\"task\":\"t\",\"answers\":["
        "{\"match\":[\"Cache\",\"coder\"],\"any\":[\"TRY 1\",\"TRY 2\"],\"text\":\"second\"},"
        "{\"match\":[\"cache\",\"coder\"],\"text\":[\"one\",\"two\",\"\"]},"
        "{\"match\":[\"cache\"],\"text\":\"plan\"}]}";
    struct replay_scripts scripts;
    struct cr_err err = CR_ERR_INIT;

    (void)state;
    if (load(json, &scripts, &err) < 0)
        fail_msg("%s", err.text);
    assert_string_equal(scripts.items[0].task, "t");
    assert_string_equal(find(&scripts, "a CACHE by the coder; TRY 2"), "second");
    assert_string_equal(find(&scripts, "a CACHE by the coder; TRY 3"), "one\ntwo\n");
    assert_string_equal(find(&scripts, "a cache"), "plan");
    assert_null(find(&scripts, "a coder"));
    assert_string_equal(replay_scripts_find(&scripts, "a cache")->finish_reason, "STOP");
    replay_scripts_done(&scripts);
}

static void errors_are_answers_too(void **state)
{
    static const char json[] =
        "{\"task\":\"t\",\"answers\":[{\"match\":[],\"error\":{\"code\":429,\"status\":\"S\","
        "\"message\":\"m\",\"retry_delay\":\"1s\"}}]}";
    struct replay_scripts scripts;
    const struct replay_answer *answer;

    (void)state;
    assert_int_equal(load(json, &scripts, NULL), 0);
    answer = replay_scripts_find(&scripts, "anything");
    assert_int_equal(answer->error_code, 429);
    assert_string_equal(answer->error_status, "S");
    assert_string_equal(answer->error_message, "m");
    assert_string_equal(answer->retry_delay, "1s");
    replay_scripts_done(&scripts);
}

static void bad_scripts_are_refused_by_member(void **state)
{
    static const struct {
        const char *json;
        const char *word;
    } cases[] = {
        {"", "not JSON"},
        {"{\"task\":\"t\"} x", "not JSON"},
        {"{\"task\":\"\xFF\"}", "UTF-8"},
        {"{\"answers\":[]}", "'task'"},
        {"[\"task\"]", "no object"},
        {"{\"task\":\"t\",\"answers\":[[\"match\"]]}", "answer 1: it is no object"},
        {"{\"task\":\"t\",\"answers\":[{\"match\":[],\"error\":[7]}]}", "'error': it is no object"},
        {"{\"task\":\"t\",\"answers\":[{\"match\":[],\"call\":[7]}]}", "'call': it is no object"},
        {"{\"task\":\"t\",\"answers\":[{\"match\":[],\"call\":{\"name\":\"f\",\"arguments\":{},"
         "\"more\":\"x\"}}]}",
         "'more' is not a list"},
        {"{\"task\":7,\"answers\":[]}", "'task'"},
        {"{\"task\":\"t\"}", "'answers'"},
        {"{\"task\":\"t\",\"answers\":[]}", "'answers'"},
        {"{\"task\":\"t\",\"anwsers\":[]}", "'anwsers'"},
        {"{\"task\":\"t\",\"answers\":[{\"text\":\"x\"}]}", "answer 1: 'match'"},
        {"{\"task\":\"t\",\"answers\":[{\"match\":[7],\"text\":\"x\"}]}", "'match'"},
        {"{\"task\":\"t\",\"answers\":[{\"match\":[],\"any\":7,\"text\":\"x\"}]}", "'any'"},
        {"{\"task\":\"t\",\"answers\":[{\"match\":[]}]}", "'text'"},
        {"{\"task\":\"t\",\"answers\":[{\"match\":[],\"text\":[1]}]}", "'text'"},
        {"{\"task\":\"t\",\"answers\":[{\"match\":[],\"text\":\"x\"},{\"match\":[],\"error\":{}}]}",
         "answer 2: 'error'"},
        {"{\"task\":\"t\",\"answers\":[{\"match\":[],\"error\":{\"code\":200,\"status\":\"S\","
         "\"message\":\"m\"}}]}",
         "'error'"},
    };

    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(cases); i++) {
        struct replay_scripts scripts = {0};
        struct cr_err err = CR_ERR_INIT;

        assert_true(load(cases[i].json, &scripts, &err) < 0);
        assert_null(scripts.items);
        if (!strstr(err.text, cases[i].word))
            fail_msg("'%s' does not hold '%s'", err.text, cases[i].word);
    }
}

static void a_missing_file_is_named(void **state)
{
    struct replay_scripts scripts;
    struct cr_err err = CR_ERR_INIT;

    (void)state;
    assert_int_equal(replay_scripts_load("/nonexistent/script.json", &scripts, &err), -ENOENT);
    assert_non_null(strstr(err.text, "/nonexistent/script.json"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_answer_that_fits_wins),
        cmocka_unit_test(errors_are_answers_too),
        cmocka_unit_test(bad_scripts_are_refused_by_member),
        cmocka_unit_test(a_missing_file_is_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
