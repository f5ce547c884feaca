/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/utf8.h"
#include "orchestrator/model/dialect.h"
#include "tests/harness/test.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Judges one attempt that is all right but for what `change` did to it. */
struct scene {
    struct agt_reply reply;
    struct agt_http_result http;
    struct agt_reply_error error;
    int stream_error;
    struct agt_verdict verdict;
};

static void scene_init(struct scene *scene)
{
    *scene = (struct scene){.http.end = AGT_HTTP_DONE,
                            .http.head.status = 200,
                            .http.received = 100,
                            .error = AGT_REPLY_ERROR_INIT};
    agt_reply_init(&scene->reply, agt_gemini_read, NULL, NULL);
    scene->reply.chunks = 1;
    scene->reply.has_candidate = true;
    assert_int_equal(cr_buf_add_str(&scene->reply.text, "text"), 0);
    (void)snprintf(scene->reply.finish_reason, sizeof(scene->reply.finish_reason), "STOP");
}

static void scene_judge(struct scene *scene)
{
    const struct agt_model_attempt attempt = {
        .names = agt_gemini_dialect.names,
        .reply = &scene->reply,
        .http = &scene->http,
        .error = &scene->error,
        .stream_error = scene->stream_error,
        .model = "gemini-x",
        .host = "g.example",
        .now_s = 784111777, /* Sun, 06 Nov 1994 08:49:37 GMT */
    };

    agt_verdict_judge(&attempt, &scene->verdict);
}

static void scene_done(struct scene *scene)
{
    agt_reply_done(&scene->reply);
}

static void expect(const struct scene *scene, enum agt_model_end end, enum agt_repeat repeat)
{
    assert_int_equal(scene->verdict.end, end);
    assert_int_equal(scene->verdict.repeat, repeat);
    assert_int_equal(scene->verdict.message[0] == 0, end == AGT_MODEL_OK);
}

static void each_finish_reason_has_its_meaning(void **state)
{
    static const struct {
        const char *name;
        enum agt_model_end end;
        enum agt_repeat repeat;
    } cases[] = {
        {"STOP", AGT_MODEL_OK, AGT_REPEAT_NO},
        {"MAX_TOKENS", AGT_MODEL_TRUNCATED, AGT_REPEAT_NO},
        {"SAFETY", AGT_MODEL_BLOCKED, AGT_REPEAT_NO},
        {"PROHIBITED_CONTENT", AGT_MODEL_BLOCKED, AGT_REPEAT_NO},
        {"BLOCKLIST", AGT_MODEL_BLOCKED, AGT_REPEAT_NO},
        {"SPII", AGT_MODEL_BLOCKED, AGT_REPEAT_NO},
        {"MODEL_ARMOR", AGT_MODEL_BLOCKED, AGT_REPEAT_NO},
        {"LANGUAGE", AGT_MODEL_BLOCKED, AGT_REPEAT_NO},
        {"RECITATION", AGT_MODEL_BLOCKED, AGT_REPEAT_ONCE},
        {"MALFORMED_FUNCTION_CALL", AGT_MODEL_BAD_ANSWER, AGT_REPEAT_TWICE},
        {"UNEXPECTED_TOOL_CALL", AGT_MODEL_BAD_ANSWER, AGT_REPEAT_TWICE},
        {"MALFORMED_RESPONSE", AGT_MODEL_BAD_ANSWER, AGT_REPEAT_TWICE},
        {"TOO_MANY_TOOL_CALLS", AGT_MODEL_BAD_ANSWER, AGT_REPEAT_TWICE},
        {"MISSING_THOUGHT_SIGNATURE", AGT_MODEL_BAD_REQUEST, AGT_REPEAT_NO},
        {"CONTINUATION", AGT_MODEL_TRUNCATED, AGT_REPEAT_NO},
        {"PUP_LIMITED_DISABLED", AGT_MODEL_AUTH, AGT_REPEAT_NO},
        {"ESCALATION", AGT_MODEL_AUTH, AGT_REPEAT_NO},
        {"OTHER", AGT_MODEL_BAD_ANSWER, AGT_REPEAT_ONCE},
        {"IMAGE_SAFETY", AGT_MODEL_BAD_ANSWER, AGT_REPEAT_ONCE},
        {"NO_IMAGE", AGT_MODEL_BAD_ANSWER, AGT_REPEAT_ONCE},
        {"FINISH_REASON_UNSPECIFIED", AGT_MODEL_BAD_ANSWER, AGT_REPEAT_ONCE},
        {"FOO", AGT_MODEL_BAD_ANSWER, AGT_REPEAT_ONCE},
    };

    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(cases); i++) {
        struct scene scene;

        scene_init(&scene);
        (void)snprintf(scene.reply.finish_reason, sizeof(scene.reply.finish_reason), "%s",
                       cases[i].name);
        (void)snprintf(scene.reply.finish_message, sizeof(scene.reply.finish_message), "why");
        scene_judge(&scene);
        expect(&scene, cases[i].end, cases[i].repeat);
        if (cases[i].end != AGT_MODEL_OK) {
            assert_non_null(strstr(scene.verdict.message, cases[i].name));
            assert_non_null(strstr(scene.verdict.message, "why"));
        }
        scene_done(&scene);
    }
}

static void empty_answers_are_told_apart(void **state)
{
    struct scene scene;

    (void)state;
    scene_init(&scene);
    cr_buf_clear(&scene.reply.text);
    scene_judge(&scene);
    expect(&scene, AGT_MODEL_BAD_ANSWER, AGT_REPEAT_ONCE);
    assert_true(scene.verdict.is_varied);

    scene.reply.finish_reason[0] = 0;
    scene_judge(&scene);
    expect(&scene, AGT_MODEL_BAD_ANSWER, AGT_REPEAT_ONCE);
    assert_non_null(strstr(scene.verdict.message, "no finish reason"));

    scene.reply.has_candidate = false;
    scene_judge(&scene);
    expect(&scene, AGT_MODEL_BAD_ANSWER, AGT_REPEAT_ONCE);
    assert_non_null(strstr(scene.verdict.message, "no candidate"));

    (void)snprintf(scene.reply.block_reason, sizeof(scene.reply.block_reason), "JAILBREAK");
    scene_judge(&scene);
    expect(&scene, AGT_MODEL_BLOCKED, AGT_REPEAT_NO);
    assert_non_null(strstr(scene.verdict.message, "JAILBREAK"));
    scene_done(&scene);
}

static void something_that_is_not_gemini_is_said_to_be_so(void **state)
{
    struct scene scene;

    (void)state;
    scene_init(&scene);
    scene.reply.finish_reason[0] = 0;
    scene.reply.chunks = 0;
    (void)snprintf(scene.http.head.content_type, sizeof(scene.http.head.content_type), "text/html");
    scene_judge(&scene);
    expect(&scene, AGT_MODEL_BAD_ANSWER, AGT_REPEAT_ONCE);
    assert_non_null(strstr(scene.verdict.message, "text/html"));

    scene.http.head.status = 404;
    scene_judge(&scene);
    expect(&scene, AGT_MODEL_BAD_ANSWER, AGT_REPEAT_NO);
    assert_non_null(strstr(scene.verdict.message, "GEMINI_BASE_URL"));
    scene_done(&scene);
}

static void thoughts_that_ate_the_budget_are_named(void **state)
{
    struct scene scene;

    (void)state;
    scene_init(&scene);
    (void)snprintf(scene.reply.finish_reason, sizeof(scene.reply.finish_reason), "MAX_TOKENS");
    scene.reply.usage = (struct agt_model_usage){.answer_tokens = 1, .thought_tokens = 3071};
    scene_judge(&scene);
    expect(&scene, AGT_MODEL_TRUNCATED, AGT_REPEAT_ONCE);
    assert_non_null(strstr(scene.verdict.message, "3071"));
    assert_true(scene.verdict.is_relaxed);
    scene_done(&scene);
}

static void each_status_has_its_meaning(void **state)
{
    static const struct {
        int status;
        enum agt_model_end end;
        enum agt_repeat repeat;
    } cases[] = {
        {301, AGT_MODEL_BAD_REQUEST, AGT_REPEAT_NO},
        {307, AGT_MODEL_BAD_REQUEST, AGT_REPEAT_NO},
        {400, AGT_MODEL_BAD_REQUEST, AGT_REPEAT_NO},
        {401, AGT_MODEL_AUTH, AGT_REPEAT_NO},
        {403, AGT_MODEL_AUTH, AGT_REPEAT_NO},
        {404, AGT_MODEL_GONE, AGT_REPEAT_NO},
        {408, AGT_MODEL_UNAVAILABLE, AGT_REPEAT_BUSY},
        {409, AGT_MODEL_UNAVAILABLE, AGT_REPEAT_ONCE},
        {413, AGT_MODEL_BAD_REQUEST, AGT_REPEAT_NO},
        {418, AGT_MODEL_BAD_REQUEST, AGT_REPEAT_NO},
        {429, AGT_MODEL_QUOTA, AGT_REPEAT_BUSY},
        {499, AGT_MODEL_UNAVAILABLE, AGT_REPEAT_ONCE},
        {500, AGT_MODEL_UNAVAILABLE, AGT_REPEAT_BUSY},
        {501, AGT_MODEL_UNAVAILABLE, AGT_REPEAT_NO},
        {502, AGT_MODEL_UNAVAILABLE, AGT_REPEAT_BUSY},
        {503, AGT_MODEL_UNAVAILABLE, AGT_REPEAT_BUSY},
        {504, AGT_MODEL_UNAVAILABLE, AGT_REPEAT_BUSY},
        {101, AGT_MODEL_BAD_ANSWER, AGT_REPEAT_NO},
        {0, AGT_MODEL_BAD_ANSWER, AGT_REPEAT_NO},
    };

    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(cases); i++) {
        struct scene scene;

        /* As the status of the response, and as an error inside of a stream. */
        for (int in_stream = 0; in_stream <= (cases[i].status >= 400); in_stream++) {
            scene_init(&scene);
            scene.error.is_set = true;
            scene.error.code = cases[i].status;
            scene.reply.error = scene.error;
            scene.http.head.status = in_stream ? 200 : cases[i].status;
            scene.http.end = in_stream ? AGT_HTTP_ABORTED : AGT_HTTP_DONE;
            scene.stream_error = in_stream ? -EREMOTEIO : 0;
            scene_judge(&scene);
            expect(&scene, cases[i].end, cases[i].repeat);
            assert_non_null(strstr(scene.verdict.message, "g.example"));
            scene_done(&scene);
        }
    }
}

static void a_removed_model_names_the_way_out(void **state)
{
    struct scene scene;

    (void)state;
    scene_init(&scene);
    scene.http.head.status = 404;
    scene.error.is_set = true;
    scene_judge(&scene);
    assert_non_null(strstr(scene.verdict.message, "gemini-x"));
    assert_non_null(strstr(scene.verdict.message, "set GEMINI_MODEL"));
    assert_non_null(strstr(scene.verdict.message, "curl -H \"x-goog-api-key: $GEMINI_API_KEY\""));
    scene_done(&scene);
}

static void a_bad_key_comes_as_400_and_is_told_as_such(void **state)
{
    struct scene scene;

    (void)state;
    scene_init(&scene);
    scene.http.head.status = 400;
    scene.error.is_set = true;
    (void)snprintf(scene.error.reason, sizeof(scene.error.reason), "API_KEY_INVALID");
    scene_judge(&scene);
    expect(&scene, AGT_MODEL_AUTH, AGT_REPEAT_NO);
    assert_non_null(strstr(scene.verdict.message, "GEMINI_API_KEY"));
    scene_done(&scene);
}

static void waits_are_taken_from_body_and_header(void **state)
{
    static const struct {
        int64_t retry_info_ms;
        const char *retry_after;
        bool is_used_up;
        int64_t wait_ms;
        enum agt_repeat repeat;
    } cases[] = {
        {-1, "", false, -1, AGT_REPEAT_BUSY},
        {0, "", false, 0, AGT_REPEAT_BUSY},
        {1500, "", false, 1500, AGT_REPEAT_BUSY},
        {86400000, "", false, 86400000, AGT_REPEAT_BUSY},
        {-1, "7", false, 7000, AGT_REPEAT_BUSY},
        {1500, "7", false, 7000, AGT_REPEAT_BUSY},
        {9000, "7", false, 9000, AGT_REPEAT_BUSY},
        {-1, "Sun, 06 Nov 1994 08:49:47 GMT", false, 10000, AGT_REPEAT_BUSY},
        {-1, "Sun, 06 Nov 1994 08:00:00 GMT", false, 0, AGT_REPEAT_BUSY},
        {-1, "soon", false, -1, AGT_REPEAT_BUSY},
        {-1, "", true, -1, AGT_REPEAT_NO},
        {1500, "", true, 1500, AGT_REPEAT_BUSY},
    };

    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(cases); i++) {
        struct scene scene;

        scene_init(&scene);
        scene.http.head.status = 429;
        scene.error.is_set = true;
        scene.error.retry_delay_ms = cases[i].retry_info_ms;
        scene.error.is_used_up = cases[i].is_used_up;
        (void)snprintf(scene.http.head.retry_after, sizeof(scene.http.head.retry_after), "%s",
                       cases[i].retry_after);
        scene_judge(&scene);
        expect(&scene, AGT_MODEL_QUOTA, cases[i].repeat);
        assert_int_equal(scene.verdict.wait_ms, cases[i].wait_ms);
        scene_done(&scene);
    }
}

static void each_end_of_the_transport_has_its_meaning(void **state)
{
    static const struct {
        enum agt_http_end http;
        enum agt_model_end end;
        enum agt_repeat repeat;
    } cases[] = {
        {AGT_HTTP_NEVER_SENT, AGT_MODEL_UNAVAILABLE, AGT_REPEAT_BUSY},
        {AGT_HTTP_IN_DOUBT, AGT_MODEL_UNAVAILABLE, AGT_REPEAT_ONCE},
        {AGT_HTTP_CUT, AGT_MODEL_BAD_ANSWER, AGT_REPEAT_ONCE},
        {AGT_HTTP_TIMEOUT_CONNECT, AGT_MODEL_UNAVAILABLE, AGT_REPEAT_BUSY},
        {AGT_HTTP_TIMEOUT_FIRST_BYTE, AGT_MODEL_UNAVAILABLE, AGT_REPEAT_ONCE},
        {AGT_HTTP_TIMEOUT_IDLE, AGT_MODEL_UNAVAILABLE, AGT_REPEAT_ONCE},
        {AGT_HTTP_TIMEOUT_TOTAL, AGT_MODEL_DEADLINE, AGT_REPEAT_NO},
        {AGT_HTTP_TOO_BIG, AGT_MODEL_BAD_ANSWER, AGT_REPEAT_NO},
        {AGT_HTTP_CANCELLED, AGT_MODEL_CANCELLED, AGT_REPEAT_NO},
        {AGT_HTTP_TLS, AGT_MODEL_UNAVAILABLE, AGT_REPEAT_NO},
        {AGT_HTTP_DNS, AGT_MODEL_UNAVAILABLE, AGT_REPEAT_BUSY},
        {AGT_HTTP_CONFIG, AGT_MODEL_BAD_REQUEST, AGT_REPEAT_NO},
    };

    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(cases); i++) {
        struct scene scene;

        scene_init(&scene);
        scene.reply.finish_reason[0] = 0;
        scene.http.end = cases[i].http;
        scene_judge(&scene);
        expect(&scene, cases[i].end, cases[i].repeat);
        assert_non_null(strstr(scene.verdict.message, "g.example"));
        scene_done(&scene);
    }
}

static void a_break_after_the_last_chunk_does_no_harm(void **state)
{
    struct scene scene;

    (void)state;
    scene_init(&scene);
    scene.http.end = AGT_HTTP_CUT;
    scene_judge(&scene);
    expect(&scene, AGT_MODEL_OK, AGT_REPEAT_NO);

    /* Half an error object behind a cut is the cut's fault; a whole one is the reason of it. */
    scene.reply.finish_reason[0] = 0;
    scene.stream_error = -EBADMSG;
    scene_judge(&scene);
    expect(&scene, AGT_MODEL_BAD_ANSWER, AGT_REPEAT_ONCE);
    scene.stream_error = -EREMOTEIO;
    scene.reply.error.code = 503;
    scene_judge(&scene);
    expect(&scene, AGT_MODEL_UNAVAILABLE, AGT_REPEAT_BUSY);
    scene_done(&scene);
}

static void each_stop_of_the_reading_has_its_meaning(void **state)
{
    static const struct {
        int error;
        enum agt_model_end end;
        enum agt_repeat repeat;
    } cases[] = {
        {-ELOOP, AGT_MODEL_BAD_ANSWER, AGT_REPEAT_ONCE},
        {-EMSGSIZE, AGT_MODEL_BAD_ANSWER, AGT_REPEAT_NO},
        {-ENOSPC, AGT_MODEL_BAD_ANSWER, AGT_REPEAT_NO},
        {-EBADMSG, AGT_MODEL_BAD_ANSWER, AGT_REPEAT_ONCE},
        {-ENOMEM, AGT_MODEL_UNAVAILABLE, AGT_REPEAT_NO},
        {-EREMOTEIO, AGT_MODEL_UNAVAILABLE, AGT_REPEAT_BUSY}, /* no code: as 500 */
    };

    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(cases); i++) {
        struct scene scene;

        scene_init(&scene);
        scene.http.end = AGT_HTTP_ABORTED;
        scene.stream_error = cases[i].error;
        scene_judge(&scene);
        expect(&scene, cases[i].end, cases[i].repeat);
        scene_done(&scene);
    }
}

static void a_long_message_is_not_cut_inside_a_character(void **state)
{
    struct scene scene;

    (void)state;
    for (size_t before = 195; before <= 200; before++) {
        scene_init(&scene);
        scene.http.head.status = 429;
        scene.error.is_set = true;
        memset(scene.error.message, 'a', before);
        memcpy(scene.error.message + before, "\xF0\x9F\x98\x80", 5);
        scene_judge(&scene);
        assert_true(cr_utf8_is_valid(scene.verdict.message, strlen(scene.verdict.message)));
        assert_non_null(strstr(scene.verdict.message, "aaaa"));
        scene_done(&scene);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_long_message_is_not_cut_inside_a_character),
        cmocka_unit_test(each_finish_reason_has_its_meaning),
        cmocka_unit_test(empty_answers_are_told_apart),
        cmocka_unit_test(something_that_is_not_gemini_is_said_to_be_so),
        cmocka_unit_test(thoughts_that_ate_the_budget_are_named),
        cmocka_unit_test(each_status_has_its_meaning),
        cmocka_unit_test(a_removed_model_names_the_way_out),
        cmocka_unit_test(a_bad_key_comes_as_400_and_is_told_as_such),
        cmocka_unit_test(waits_are_taken_from_body_and_header),
        cmocka_unit_test(each_end_of_the_transport_has_its_meaning),
        cmocka_unit_test(a_break_after_the_last_chunk_does_no_harm),
        cmocka_unit_test(each_stop_of_the_reading_has_its_meaning),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
