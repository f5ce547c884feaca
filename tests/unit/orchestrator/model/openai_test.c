/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/err.h"
#include "orchestrator/model/dialect.h"
#include "orchestrator/model/list.h"
#include "orchestrator/model/openai_request.h"
#include "tests/harness/test.h"

#include <errno.h>
#include <string.h>

/* The interface that Ollama, vLLM and the server of llama.cpp share. */

static void names_and_addresses_are_checked_and_put_together(void **state)
{
    static const struct {
        const char *base;
        const char *url;
    } cases[] = {
        {"http://127.0.0.1:11434/v1", "http://127.0.0.1:11434/v1/chat/completions"},
        {"http://127.0.0.1:8080", "http://127.0.0.1:8080/v1/chat/completions"},
        {"http://127.0.0.1:8080/", "http://127.0.0.1:8080/v1/chat/completions"},
        {"https://h.example/openai/v2/", "https://h.example/openai/v2/chat/completions"},
    };

    (void)state;
    assert_true(agt_openai_model_is_valid("qwen2.5-coder:7b"));
    assert_true(agt_openai_model_is_valid("meta-llama/Llama-3.1-8B"));
    assert_false(agt_openai_model_is_valid("a\"b"));
    assert_false(agt_openai_model_is_valid("../m"));
    assert_false(agt_openai_model_is_valid(""));
    for (size_t i = 0; i < CR_ARRAY_SIZE(cases); i++) {
        CR_AUTO_FREE char *url = NULL;

        assert_int_equal(agt_openai_dialect.url(cases[i].base, "m", AGT_TARGET_ASK, &url), 0);
        assert_string_equal(url, cases[i].url);
    }
}

static void bodies_have_the_members_that_such_servers_know(void **state)
{
    static const struct agt_model_turn turn = {
        .name = "execute_python", .arguments = "{\"code\":\"1\"}", .id = "", .output = "out"};

    static const struct {
        struct agt_model_request request;
        const char *json;
    } cases[] = {
        {{.prompt = "p", .system = "s"},
         "{\"model\":\"m\",\"messages\":[{\"role\":\"system\",\"content\":\"s\"},{\"role\":"
         "\"user\",\"content\":\"p\"}],\"stream\":true,\"stream_options\":{\"include_usage\":true}"
         "}"},
        {{.prompt = "p", .schema = "{\"type\":\"object\"}", .max_output_tokens = 9},
         "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"p\"}],\"stream\":true,"
         "\"stream_options\":{\"include_usage\":true},\"response_format\":{\"type\":\"json_schema"
         "\",\"json_schema\":{\"name\":\"answer\",\"schema\":{\"type\":\"object\"}}},\"max_tokens"
         "\":9}"},
        {{.prompt = "p",
          .functions = {{"execute_python", "d", "{\"type\":\"object\"}"}},
          .function_count = 1,
          .turns = &turn,
          .turn_count = 1},
         "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"p\"},{\"role\":"
         "\"assistant\",\"content\":\"\",\"tool_calls\":[{\"id\":\"call_0\",\"type\":\"function\","
         "\"function\":{\"name\":\"execute_python\",\"arguments\":\"{\\\"code\\\":\\\"1\\\"}\"}}]},"
         "{\"role\":\"tool\",\"content\":\"out\",\"tool_call_id\":\"call_0\"}],\"stream\":true,"
         "\"stream_options\":{\"include_usage\":true},\"tools\":[{\"type\":\"function\","
         "\"function\":{\"name\":\"execute_python\",\"description\":\"d\",\"parameters\":{\"type\":"
         "\"object\"}}}],\"tool_choice\":\"auto\"}"},
    };

    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(cases); i++) {
        CR_AUTO_FREE char *json = NULL;

        assert_int_equal(agt_openai_request_json(&cases[i].request, "m", &json, NULL), 0);
        assert_string_equal(json, cases[i].json);
    }
}

static void a_varied_body_has_one_seed(void **state)
{
    CR_AUTO_FREE char *varied = agt_openai_request_vary("{\"model\":\"m\"}", 7);
    CR_AUTO_FREE char *again = agt_openai_request_vary(varied, 8);

    (void)state;
    assert_string_equal(varied, "{\"model\":\"m\",\"seed\":7}");
    assert_string_equal(again, "{\"model\":\"m\",\"seed\":8}");
}

/* Adds each of the texts; returns what the last one gave. */
static int read_all(struct agt_reply *reply, const char *const *texts)
{
    int r = 0;

    agt_reply_init(reply, agt_openai_read, NULL, NULL);
    for (size_t i = 0; texts[i] && r == 0; i++)
        r = agt_reply_add(reply, texts[i], strlen(texts[i]), false);
    return r;
}

static void streams_of_all_three_servers_are_read(void **state)
{
    /* As seen from Ollama, vLLM and llama.cpp: usage in a chunk of its own, or in the last one. */
    static const char *const streams[][6] = {
        {"{\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":"
         "\"qwen\",\"system_fingerprint\":\"fp_ollama\",\"choices\":[{\"index\":0,\"delta\":{"
         "\"role\":\"assistant\",\"content\":\"one \"},\"finish_reason\":null}]}",
         "{\"model\":\"qwen\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\","
         "\"content\":\"two\"},\"finish_reason\":null}]}",
         "{\"model\":\"qwen\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"\"},"
         "\"finish_reason\":\"stop\"}]}",
         "{\"model\":\"qwen\",\"choices\":[],\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":"
         "3,\"total_tokens\":10}}",
         "[DONE]", NULL},
        {"{\"model\":\"qwen\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\","
         "\"content\":\"\"},\"logprobs\":null,\"finish_reason\":null}]}",
         "{\"model\":\"qwen\",\"choices\":[{\"index\":0,\"delta\":{\"reasoning_content\":\"hm\"},"
         "\"finish_reason\":null}]}",
         "{\"model\":\"qwen\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"one two\"},"
         "\"finish_reason\":\"stop\",\"stop_reason\":null}],\"usage\":null}",
         "{\"model\":\"qwen\",\"choices\":[],\"usage\":{\"prompt_tokens\":7,\"total_tokens\":10,"
         "\"completion_tokens\":3}}",
         "[DONE]", NULL},
        {"{\"choices\":[{\"finish_reason\":null,\"index\":0,\"delta\":{\"role\":\"assistant\","
         "\"content\":null}}],\"model\":\"qwen\"}",
         "{\"choices\":[{\"finish_reason\":null,\"index\":0,\"delta\":{\"content\":\"one two\"}}]}",
         "{\"choices\":[{\"finish_reason\":\"stop\",\"index\":0,\"delta\":{}}],\"usage\":{"
         "\"completion_tokens\":3,\"prompt_tokens\":7,\"total_tokens\":10},\"timings\":{}}",
         "[DONE]", NULL},
        {"{\"model\":\"qwen\",\"choices\":[{\"message\":{\"role\":\"assistant\",\"content\":"
         "\"one two\"},\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":7,"
         "\"completion_tokens\":3}}",
         NULL},
    };

    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(streams); i++) {
        struct agt_reply reply;

        assert_int_equal(read_all(&reply, streams[i]), 0);
        assert_string_equal(cr_buf_str(&reply.text), "one two");
        assert_string_equal(reply.finish_reason, "stop");
        assert_string_equal(reply.model_served, "qwen");
        assert_int_equal(reply.usage.prompt_tokens, 7);
        assert_int_equal(reply.usage.answer_tokens, 3);
        assert_int_equal(reply.usage.total_tokens, 10);
        assert_int_equal(reply.thoughts_size, i == 1 ? 2 : 0);
        agt_reply_done(&reply);
    }
}

static void a_call_is_put_together_from_its_pieces(void **state)
{
    static const char *const stream[] = {
        "{\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"call_x\","
        "\"type\":\"function\",\"function\":{\"name\":\"execute_python\",\"arguments\":\"\"}}]}}]}",
        "{\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":{"
        "\"arguments\":\"{\\\"code\\\":\"}}]}}]}",
        "{\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":1,\"function\":{"
        "\"name\":\"other\",\"arguments\":\"{}\"}},{\"index\":0,\"function\":{\"arguments\":"
        "\"\\\"1\\\"}\"}}]},\"finish_reason\":\"tool_calls\"}]}",
        NULL};
    struct agt_reply reply;

    (void)state;
    assert_int_equal(read_all(&reply, stream), 0);
    assert_true(reply.has_call);
    assert_string_equal(reply.call_name, "execute_python");
    assert_string_equal(reply.call_id, "call_x");
    assert_string_equal(cr_buf_str(&reply.call_arguments), "{\"code\":\"1\"}");
    agt_reply_done(&reply);
}

static void failures_of_all_shapes_are_read(void **state)
{
    static const struct {
        const char *body;
        const char *message;
        const char *reason;
        int code;
        bool is_used_up;
    } cases[] = {
        {"{\"error\":{\"message\":\"model 'x' not found\",\"type\":\"api_error\",\"param\":null,"
         "\"code\":null}}",
         "model 'x' not found", "", 0, false},
        {"{\"object\":\"error\",\"message\":\"too long\",\"type\":\"BadRequestError\",\"code\":400}",
         "too long", "", 400, false},
        {"{\"error\":{\"code\":503,\"message\":\"Loading model\",\"type\":\"unavailable_error\"}}",
         "Loading model", "", 503, false},
        {"{\"error\":\"model is required\"}", "model is required", "", 0, false},
        {"{\"error\":{\"message\":\"m\",\"type\":\"insufficient_quota\",\"code\":"
         "\"insufficient_quota\"}}",
         "m", "insufficient_quota", 0, true},
    };

    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(cases); i++) {
        struct agt_reply_error error = AGT_REPLY_ERROR_INIT;

        assert_true(agt_reply_error_parse(cases[i].body, strlen(cases[i].body), &error));
        assert_string_equal(error.message, cases[i].message);
        assert_string_equal(error.reason, cases[i].reason);
        assert_int_equal(error.code, cases[i].code);
        assert_int_equal(error.is_used_up, cases[i].is_used_up);
    }
}

static void lists_of_all_shapes_are_read(void **state)
{
    static const struct {
        const char *json;
        const char *names[3];
        const char *next;
        int r;
    } cases[] = {
        {"{\"models\":[{\"name\":\"models/a\",\"supportedGenerationMethods\":[\"generateContent\"]},"
         "{\"name\":\"models/e\",\"supportedGenerationMethods\":[\"embedContent\"]},{\"name\":"
         "\"tunedModels/t\"}],\"nextPageToken\":\"x y\"}",
         {"a", "tunedModels/t"},
         "x y",
         0},
        {"{\"publisherModels\":[{\"name\":\"publishers/google/models/a\"}]}", {"a"}, NULL, 0},
        {"{\"object\":\"list\",\"data\":[{\"id\":\"qwen:7b\",\"object\":\"model\"}]}",
         {"qwen:7b"},
         NULL,
         0},
        {"{\"object\":\"list\",\"data\":null}", {NULL}, NULL, 0},
        {"{\"models\":[1,{},{\"name\":5}]}", {NULL}, NULL, 0},
        {"{}", {NULL}, NULL, -EBADMSG},
        {"<html>", {NULL}, NULL, -EBADMSG},
    };

    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(cases); i++) {
        struct agt_names names = {0};
        CR_AUTO_FREE char *next = NULL;
        size_t count = 0;

        assert_int_equal(agt_names_parse(cases[i].json, strlen(cases[i].json), &names, &next),
                         cases[i].r);
        for (; cases[i].names[count]; count++)
            assert_string_equal(names.items[count], cases[i].names[count]);
        assert_int_equal(names.count, count);
        assert_true(next ? cases[i].next && strcmp(next, cases[i].next) == 0 : !cases[i].next);
        agt_names_done(&names);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_and_addresses_are_checked_and_put_together),
        cmocka_unit_test(bodies_have_the_members_that_such_servers_know),
        cmocka_unit_test(a_varied_body_has_one_seed),
        cmocka_unit_test(streams_of_all_three_servers_are_read),
        cmocka_unit_test(a_call_is_put_together_from_its_pieces),
        cmocka_unit_test(failures_of_all_shapes_are_read),
        cmocka_unit_test(lists_of_all_shapes_are_read),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
