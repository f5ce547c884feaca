/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/err.h"
#include "orchestrator/model/gemini_request.h"
#include "orchestrator/model/http.h"
#include "orchestrator/model/model.h"
#include "tests/harness/test.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

static void model_names_cannot_leave_their_place(void **state)
{
    static const char *const good[] = {"gemini-2.5-flash", "models/gemini-2.5-pro",
                                       "tunedModels/mine-1", "gemma_3@001"};
    static const char *const bad[] = {"",        "models/",  "a/b",        "../m", "models/../m",
                                      "a..b",    "m?key=1",  "m&a",        "m#f",  "m n",
                                      "m\n",     "m:count",  "m%2e",       "/m",   "models//m",
                                      "files/m", "\xC3\xA9", "models/a/b", "m\\n"};
    char longest[200];

    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(good); i++)
        assert_true(agt_gemini_model_is_valid(good[i]));
    for (size_t i = 0; i < CR_ARRAY_SIZE(bad); i++)
        assert_false(agt_gemini_model_is_valid(bad[i]));
    memset(longest, 'm', sizeof(longest));
    longest[129] = 0;
    assert_false(agt_gemini_model_is_valid(longest));
}

static void urls_are_put_together(void **state)
{
    static const struct {
        const char *base;
        const char *model;
        const char *url;
    } cases[] = {
        {"https://g.example", "m", "https://g.example/v1beta/models/m:x"},
        {"https://g.example/", "models/m", "https://g.example/v1beta/models/m:x"},
        {"https://g.example/proxy//", "m", "https://g.example/proxy/v1beta/models/m:x"},
        {"https://g.example/v1", "m", "https://g.example/v1/models/m:x"},
        {"https://g.example/v1beta/", "tunedModels/m", "https://g.example/v1beta/tunedModels/m:x"},
    };

    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(cases); i++) {
        CR_AUTO_FREE char *url = NULL;

        assert_int_equal(agt_gemini_url(cases[i].base, cases[i].model, ":x", &url), 0);
        assert_string_equal(url, cases[i].url);
    }
}

static void only_https_and_loopback_are_called(void **state)
{
    static const struct {
        const char *url;
        const char *host; /* NULL: refused */
    } cases[] = {
        {"https://g.example", "g.example"},
        {"https://g.example:8443/a", "g.example:8443"},
        {"http://127.0.0.1:80", "127.0.0.1:80"},
        {"http://127.9.9.9", "127.9.9.9"},
        {"http://localhost:1/x", "localhost:1"},
        {"http://[::1]:7", "[::1]:7"},
        {"http://g.example", NULL},
        {"http://127.0.0.1.g.example", NULL},
        {"http://10.0.0.1", NULL},
        {"https://user:secret@g.example", NULL},
        {"https://user@g.example", NULL},
        {"file:///etc/passwd", NULL},
        {"ftp://g.example", NULL},
        {"g.example", NULL},
        {"", NULL},
        {"https://", NULL},
        {"https://a b", NULL},
    };

    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(cases); i++) {
        CR_AUTO_FREE char *host = NULL;
        struct cr_err err = CR_ERR_INIT;
        int r = agt_http_check_url(cases[i].url, &host, &err);

        if (r != (cases[i].host ? 0 : -EINVAL))
            fail_msg("%s: %d", cases[i].url, r);
        assert_null(strstr(err.text, "secret"));
        if (cases[i].host)
            assert_string_equal(host, cases[i].host);
    }
}

static void body_has_the_members_that_gemini_knows(void **state)
{
    static const struct {
        struct agt_model_request request;
        const char *json;
    } cases[] = {
        {{.prompt = "p"}, "{\"contents\":[{\"role\":\"user\",\"parts\":[{\"text\":\"p\"}]}]}"},
        {{.prompt = "p", .system = ""},
         "{\"contents\":[{\"role\":\"user\",\"parts\":[{\"text\":\"p\"}]}]}"},
        {{.prompt = "a\"\\\n\x01\xC3\xA9", .system = "s", .max_output_tokens = 4096},
         "{\"contents\":[{\"role\":\"user\",\"parts\":[{\"text\":\"a\\\"\\\\\\n\\u0001\xC3\xA9\"}]}],"
         "\"systemInstruction\":{\"role\":\"user\",\"parts\":[{\"text\":\"s\"}]},"
         "\"generationConfig\":{\"maxOutputTokens\":4096}}"},
    };

    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(cases); i++) {
        CR_AUTO_FREE char *json = NULL;

        assert_int_equal(agt_gemini_request_json(&cases[i].request, "m", &json, NULL), 0);
        assert_string_equal(json, cases[i].json);
    }
}

static void bad_texts_are_refused_by_name(void **state)
{
    static const struct {
        struct agt_model_request request;
        const char *word;
    } cases[] = {
        {{.prompt = NULL}, "prompt"},
        {{.prompt = ""}, "prompt"},
        {{.prompt = "\xFF"}, "prompt"},
        {{.prompt = "p", .system = "\xED\xA0\x80"}, "system"},
    };

    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(cases); i++) {
        struct cr_err err = CR_ERR_INIT;
        char *json = NULL;

        assert_int_equal(agt_gemini_request_json(&cases[i].request, "m", &json, &err), -EINVAL);
        assert_null(json);
        assert_non_null(strstr(err.text, cases[i].word));
    }
}

static void a_varied_body_has_a_seed(void **state)
{
    CR_AUTO_FREE char *varied =
        agt_gemini_request_vary("{\"contents\":[],\"generationConfig\":{\"topK\":1}}", 7);
    CR_AUTO_FREE char *other = agt_gemini_request_vary("{\"contents\":[]}", UINT32_MAX);

    (void)state;
    assert_string_equal(varied, "{\"contents\":[],\"generationConfig\":{\"topK\":1,\"seed\":7}}");
    assert_string_equal(other, "{\"contents\":[],\"generationConfig\":{\"seed\":2147483647}}");
}

static void a_body_that_is_varied_again_has_one_seed(void **state)
{
    CR_AUTO_FREE char *first = agt_gemini_request_vary("{\"contents\":[]}", 7);
    CR_AUTO_FREE char *second = agt_gemini_request_vary(first, 8);

    (void)state;
    assert_string_equal(second, "{\"contents\":[],\"generationConfig\":{\"seed\":8}}");
}

static void a_relaxed_body_thinks_as_little_as_it_may(void **state)
{
    static const struct {
        const char *model;
        const char *json;
    } cases[] = {
        {"gemini-2.5-flash",
         "{\"generationConfig\":{\"thinkingConfig\":{\"thinkingBudget\":128}}}"},
        {"models/gemini-2.5-flash-lite",
         "{\"generationConfig\":{\"thinkingConfig\":{\"thinkingBudget\":512}}}"},
        {"gemini-3-pro", "{\"generationConfig\":{\"thinkingConfig\":{\"thinkingLevel\":\"LOW\"}}}"},
    };

    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(cases); i++) {
        CR_AUTO_FREE char *relaxed = agt_gemini_request_relax(
            "{\"generationConfig\":{\"thinkingConfig\":{\"thinkingBudget\":9000}}}",
            cases[i].model);

        assert_string_equal(relaxed, cases[i].json);
    }
}

static cJSON *load_golden(void)
{
    CR_AUTO_FCLOSE FILE *file = fopen(CRISOL_GOLDEN_REQUESTS, "re");
    static char text[65536];
    cJSON *golden;

    assert_non_null(file);
    text[fread(text, 1, sizeof(text) - 1, file)] = 0;
    golden = cJSON_Parse(text);
    assert_true(cJSON_IsArray(golden));
    return golden;
}

/* An empty one says as much as none. */
static void drop_empty_config(cJSON *request)
{
    const cJSON *config = cJSON_GetObjectItemCaseSensitive(request, "generationConfig");

    if (config && !config->child)
        cJSON_DeleteItemFromObjectCaseSensitive(request, "generationConfig");
}

/* What Google's own client sends for the same (tests/wire/sdk_test.py keeps the file true). */
static void bodies_are_those_of_the_official_client(void **state)
{
    static const char files[] =
        "{\"type\":\"object\",\"properties\":{\"solution_py\":{\"type\":\"string\"},"
        "\"test_solution_py\":{\"type\":\"string\"}},\"required\":[\"test_solution_py\","
        "\"solution_py\"],\"propertyOrdering\":[\"test_solution_py\",\"solution_py\"]}";
    static const struct agt_model_turn turn = {.name = "execute_python",
                                               .arguments = "{\"code\":\"print(1)\"}",
                                               .id = "",
                                               .signature = "c2lnbmF0dXJl",
                                               .output = "1\n"};
    static const struct agt_model_request requests[] = {
        {.prompt = "prompt"},
        {.prompt = "prompt", .system = "system", .max_output_tokens = 512},
        {.prompt = "prompt", .system = "system", .max_output_tokens = 512, .schema = files},
        {.prompt = "prompt",
         .system = "system",
         .max_output_tokens = 512,
         .functions = {{"submit_files", "Hands in both files.", files}},
         .function_count = 1,
         .must_call = true},
        {.prompt = "prompt",
         .has_temperature = true,
         .temperature = 0.5,
         .has_thinking = true,
         .thinking_budget = 128},
        {.prompt = "prompt",
         .functions = {{"execute_python", "Runs Python.",
                        "{\"type\":\"object\",\"properties\":{\"code\":{\"type\":\"string\"}},"
                        "\"required\":[\"code\"]}"}},
         .function_count = 1,
         .turns = &turn,
         .turn_count = 1},
    };
    cJSON *golden = load_golden();

    (void)state;
    assert_int_equal(cJSON_GetArraySize(golden), CR_ARRAY_SIZE(requests));
    for (size_t i = 0; i < CR_ARRAY_SIZE(requests); i++) {
        cJSON *expected = cJSON_GetArrayItem(golden, (int)i);
        CR_AUTO_FREE char *json = NULL;
        cJSON *ours;

        assert_int_equal(agt_gemini_request_json(&requests[i], "m", &json, NULL), 0);
        ours = cJSON_Parse(json);
        cJSON_DeleteItemFromObject(cJSON_GetObjectItem(expected, "generationConfig"), "seed");
        drop_empty_config(expected);
        if (!cJSON_Compare(ours, expected, true))
            fail_msg("request %zu: %s", i, json);
        cJSON_Delete(ours);
    }
    cJSON_Delete(golden);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(model_names_cannot_leave_their_place),
        cmocka_unit_test(urls_are_put_together),
        cmocka_unit_test(only_https_and_loopback_are_called),
        cmocka_unit_test(body_has_the_members_that_gemini_knows),
        cmocka_unit_test(bad_texts_are_refused_by_name),
        cmocka_unit_test(a_varied_body_has_a_seed),
        cmocka_unit_test(a_body_that_is_varied_again_has_one_seed),
        cmocka_unit_test(a_relaxed_body_thinks_as_little_as_it_may),
        cmocka_unit_test(bodies_are_those_of_the_official_client),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
