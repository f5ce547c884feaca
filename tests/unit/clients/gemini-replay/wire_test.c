/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/gemini-replay/script.h"
#include "clients/gemini-replay/wire.h"
#include "common/auto.h"
#include "common/buf.h"
#include "tests/harness/test.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

/* 100 bytes with a four-byte character across the border of the first chunk. */
static char long_text[101] = "0123456789012345678901234567890123456789012345\xF0\x9F\x98\x80"
                             "01234567890123456789012345678901234567890123456789";

static struct replay_answer answer_of(char *text, char *thoughts)
{
    static char stop[] = "STOP";

    return (struct replay_answer){.text = text, .thoughts = thoughts, .finish_reason = stop};
}

static const cJSON *candidate_of(const cJSON *response)
{
    return cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(response, "candidates"), 0);
}

static const char *text_of(const cJSON *response)
{
    const cJSON *content = cJSON_GetObjectItemCaseSensitive(candidate_of(response), "content");
    const cJSON *parts = cJSON_GetObjectItemCaseSensitive(content, "parts");

    return cJSON_GetStringValue(
        cJSON_GetObjectItemCaseSensitive(cJSON_GetArrayItem(parts, 0), "text"));
}

static int usage_of(const cJSON *response, const char *name)
{
    const cJSON *usage = cJSON_GetObjectItemCaseSensitive(response, "usageMetadata");
    const cJSON *count = cJSON_GetObjectItemCaseSensitive(usage, name);

    return count ? count->valueint : -1;
}

static void sse_has_one_object_per_event_and_an_end(void **state)
{
    const struct replay_answer answer = answer_of(long_text, NULL);
    struct replay_body body;
    CR_AUTO_BUF struct cr_buf text;
    size_t at = 0;

    (void)state;
    cr_buf_init(&text, 1000);
    assert_int_equal(replay_body_render(&answer, REPLAY_SSE, 7, &body), 0);
    assert_int_equal(body.chunks, 3);
    assert_int_equal(body.ends[2], body.size);
    for (size_t i = 0; i < body.chunks; i++) {
        cJSON *response = cJSON_ParseWithLength(body.bytes + at + 6, body.ends[i] - at - 10);

        assert_memory_equal(body.bytes + at, "data: ", 6);
        assert_memory_equal(body.bytes + body.ends[i] - 4, "\r\n\r\n", 4);
        assert_non_null(response);
        assert_int_equal(cr_buf_add_str(&text, text_of(response)), 0);
        assert_int_equal(cJSON_HasObjectItem(candidate_of(response), "finishReason"), i == 2);
        assert_int_equal(usage_of(response, "promptTokenCount"), 7);
        assert_int_equal(usage_of(response, "candidatesTokenCount"), (text.size + 3) / 4);
        assert_int_equal(usage_of(response, "totalTokenCount"), 7 + (text.size + 3) / 4);
        assert_string_equal(
            cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(response, "modelVersion")),
            "gemini-replay (scripted)");
        cJSON_Delete(response);
        at = body.ends[i];
    }
    assert_string_equal(cr_buf_str(&text), long_text);
    replay_body_done(&body);
}

static void array_framing_is_one_json_array(void **state)
{
    const struct replay_answer answer = answer_of(long_text, NULL);
    struct replay_body body;
    cJSON *array;

    (void)state;
    assert_int_equal(replay_body_render(&answer, REPLAY_ARRAY, 7, &body), 0);
    array = cJSON_ParseWithOpts(body.bytes, NULL, true);
    assert_int_equal(cJSON_GetArraySize(array), 3);
    cJSON_Delete(array);
    replay_body_done(&body);
}

static void unary_is_one_whole_object(void **state)
{
    char thoughts[] = "hm";
    const struct replay_answer answer = answer_of(long_text, thoughts);
    struct replay_body body;
    cJSON *response;

    (void)state;
    assert_int_equal(replay_body_render(&answer, REPLAY_UNARY, 7, &body), 0);
    assert_int_equal(body.chunks, 1);
    response = cJSON_ParseWithOpts(body.bytes, NULL, true);
    assert_string_equal(text_of(response), long_text);
    cJSON_Delete(response);
    replay_body_done(&body);
}

static void thoughts_come_first_and_are_marked(void **state)
{
    char text[] = "x";
    char thoughts[] = "hm";
    const struct replay_answer answer = answer_of(text, thoughts);
    struct replay_body body;

    (void)state;
    assert_int_equal(replay_body_render(&answer, REPLAY_SSE, 7, &body), 0);
    assert_int_equal(body.chunks, 2);
    assert_non_null(memmem(body.bytes, body.ends[0], "\"text\":\"hm\",\"thought\":true", 26));
    assert_null(memmem(body.bytes, body.ends[0], "finishReason", 12));
    assert_non_null(strstr(body.bytes + body.ends[0], "\"thoughtsTokenCount\":1"));
    replay_body_done(&body);
}

static void an_empty_text_still_ends(void **state)
{
    char text[] = "";
    const struct replay_answer answer = answer_of(text, NULL);
    struct replay_body body;

    (void)state;
    assert_int_equal(replay_body_render(&answer, REPLAY_SSE, 7, &body), 0);
    assert_int_equal(body.chunks, 1);
    assert_non_null(strstr(body.bytes, "\"finishReason\":\"STOP\""));
    replay_body_done(&body);
}

static void errors_have_the_shape_of_google_rpc(void **state)
{
    CR_AUTO_FREE char *json = replay_error(429, "RESOURCE_EXHAUSTED", "m", "R", "2s");
    cJSON *root = cJSON_Parse(json);
    const cJSON *error = cJSON_GetObjectItemCaseSensitive(root, "error");
    const cJSON *details = cJSON_GetObjectItemCaseSensitive(error, "details");

    (void)state;
    assert_int_equal(cJSON_GetObjectItemCaseSensitive(error, "code")->valueint, 429);
    assert_int_equal(cJSON_GetArraySize(details), 2);
    assert_string_equal(cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(
                            cJSON_GetArrayItem(details, 1), "retryDelay")),
                        "2s");
    cJSON_Delete(root);
}

static void request_text_is_system_and_contents(void **state)
{
    static const struct {
        const char *json;
        const char *text; /* NULL: refused */
    } cases[] = {
        {"{\"systemInstruction\":{\"parts\":[{\"text\":\"s\"}]},\"contents\":[{\"parts\":[{\"text\":"
         "\"a\"},{\"inlineData\":{}}]},{\"parts\":[{\"text\":\"b\"}]}]}",
         "s\na\n\nb\n"},
        {"{\"generateContentRequest\":{\"contents\":[{\"parts\":[{\"text\":\"a\"}]}]}}", "a\n"},
        {"{\"contents\":[]}", NULL},
        {"{}", NULL},
        {"nonsense", NULL},
        {"", NULL},
    };

    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(cases); i++) {
        CR_AUTO_BUF struct cr_buf text;

        cr_buf_init(&text, 1000);
        assert_int_equal(replay_request_text(cases[i].json, strlen(cases[i].json), &text),
                         cases[i].text ? 0 : -EBADMSG);
        assert_string_equal(cr_buf_str(&text), cases[i].text ? cases[i].text : "");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sse_has_one_object_per_event_and_an_end),
        cmocka_unit_test(array_framing_is_one_json_array),
        cmocka_unit_test(unary_is_one_whole_object),
        cmocka_unit_test(thoughts_come_first_and_are_marked),
        cmocka_unit_test(an_empty_text_still_ends),
        cmocka_unit_test(errors_have_the_shape_of_google_rpc),
        cmocka_unit_test(request_text_is_system_and_contents),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
