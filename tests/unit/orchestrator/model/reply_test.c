/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "orchestrator/model/reply.h"
#include "tests/harness/test.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define FFFD "\xEF\xBF\xBD"

/* One candidate with these parts. */
#define PARTS(parts) "{\"candidates\":[{\"content\":{\"role\":\"model\",\"parts\":[" parts "]}}]}"

#define STOPPED(parts)                                                                             \
    "{\"candidates\":[{\"content\":{\"parts\":[" parts "]},\"finishReason\":\"STOP\"}]}"

struct deltas {
    struct cr_buf text;
    struct cr_buf thoughts;
};

static void on_delta(void *user, uint32_t offset, const char *text, size_t size, bool is_thought)
{
    struct deltas *deltas = user;
    struct cr_buf *target = is_thought ? &deltas->thoughts : &deltas->text;

    assert_int_equal(offset, target->size);
    assert_true(size > 0);
    assert_int_equal(cr_buf_add(target, text, size), 0);
}

static void start(struct agt_reply *reply, struct deltas *deltas)
{
    cr_buf_init(&deltas->text, 8u << 20);
    cr_buf_init(&deltas->thoughts, 8u << 20);
    agt_reply_init(reply, agt_gemini_read, on_delta, deltas);
}

static void stop(struct agt_reply *reply, struct deltas *deltas)
{
    agt_reply_done(reply);
    cr_buf_done(&deltas->text);
    cr_buf_done(&deltas->thoughts);
}

static int add(struct agt_reply *reply, const char *json)
{
    return agt_reply_add(reply, json, strlen(json), false);
}

static void texts_are_put_together(void **state)
{
    static const struct {
        const char *chunks[3];
        const char *text;
        const char *thoughts;
        const char *finish;
    } cases[] = {
        /* What may be missing. */
        {{"{}"}, "", "", ""},
        {{"{\"candidates\":[]}"}, "", "", ""},
        {{"{\"candidates\":[{}]}"}, "", "", ""},
        {{"{\"candidates\":[{\"finishReason\":\"STOP\"}]}"}, "", "", "STOP"},
        {{"{\"candidates\":[{\"content\":{}}]}"}, "", "", ""},
        {{PARTS("")}, "", "", ""},
        {{PARTS("{}")}, "", "", ""},
        {{PARTS("{\"text\":\"\"}")}, "", "", ""},
        {{"{\"candidates\":[7]}"}, "", "", ""},
        {{"{\"candidates\":{},\"usageMetadata\":[]}"}, "", "", ""},
        {{PARTS("{\"text\":7}")}, "", "", ""},
        /* Pieces. */
        {{PARTS("{\"text\":\"a\"},{\"text\":\"b\"},{\"text\":\"c\"}")}, "abc", "", ""},
        {{PARTS("{\"text\":\"a\"}"), PARTS("{\"text\":\"b\"}"), STOPPED("{\"text\":\"c\"}")},
         "abc",
         "",
         "STOP"},
        {{PARTS("{\"text\":\"a\"}"), "{\"candidates\":[{\"finishReason\":\"STOP\"}]}"},
         "a",
         "",
         "STOP"},
        {{STOPPED("{\"text\":\"a\"}"), "{\"usageMetadata\":{\"promptTokenCount\":1}}"},
         "a",
         "",
         "STOP"},
        {{"{\"candidates\":[{\"index\":1,\"content\":{\"parts\":[{\"text\":\"no\"}]}},"
          "{\"index\":0,\"content\":{\"parts\":[{\"text\":\"yes\"}]}}]}"},
         "yes",
         "",
         ""},
        {{"[" PARTS("{\"text\":\"a\"}") "," PARTS("{\"text\":\"b\"}") "]"}, "ab", "", ""},
        {{PARTS("{\"text\":\"a\"}"), "[DONE]", ""}, "a", "", ""},
        /* Thoughts before, between and after; signatures. */
        {{PARTS("{\"text\":\"t1\",\"thought\":true},{\"text\":\"a\"}"),
          PARTS("{\"text\":\"t2\",\"thought\":true},{\"text\":\"b\",\"thought\":false}"),
          PARTS(
              "{\"text\":\"\",\"thoughtSignature\":\"eA==\"},{\"text\":\"t3\",\"thought\":true}")},
         "ab",
         "t1t2t3",
         ""},
        {{PARTS("{\"functionCall\":{\"name\":\"f\"}},{\"inlineData\":{}},{\"text\":\"a\"}")},
         "a",
         "",
         ""},
        /* Characters. */
        {{PARTS("{\"text\":\"\\ud83d\\ude00\"}")}, "\xF0\x9F\x98\x80", "", ""},
        {{PARTS("{\"text\":\"\\ud83d\"},{\"text\":\"\\ude00\"}")}, "\xF0\x9F\x98\x80", "", ""},
        {{PARTS("{\"text\":\"\\ud83d\"}"), PARTS("{\"text\":\"\\ude00\"}")},
         "\xF0\x9F\x98\x80",
         "",
         ""},
        {{PARTS("{\"text\":\"a\\ud83d\"}"), PARTS("{\"text\":\"b\"}")}, "a" FFFD "b", "", ""},
        {{PARTS("{\"text\":\"a\\ud83d\"}")}, "a" FFFD, "", ""},
        {{PARTS("{\"text\":\"a\\u0000b\\u2028\x7F\xFF\"}")},
         "a" FFFD "b\xE2\x80\xA8\x7F" FFFD,
         "",
         ""},
    };

    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(cases); i++) {
        struct agt_reply reply;
        struct deltas deltas;

        start(&reply, &deltas);
        for (size_t j = 0; j < CR_ARRAY_SIZE(cases[i].chunks) && cases[i].chunks[j]; j++)
            assert_int_equal(add(&reply, cases[i].chunks[j]), 0);
        assert_int_equal(agt_reply_end(&reply), 0);
        assert_string_equal(cr_buf_str(&reply.text), cases[i].text);
        assert_string_equal(cr_buf_str(&deltas.text), cases[i].text);
        assert_string_equal(cr_buf_str(&deltas.thoughts), cases[i].thoughts);
        assert_string_equal(reply.finish_reason, cases[i].finish);
        stop(&reply, &deltas);
    }
}

static void usage_is_the_last_one_and_never_a_sum(void **state)
{
    struct agt_reply reply;

    (void)state;
    agt_reply_init(&reply, agt_gemini_read, NULL, NULL);
    assert_int_equal(add(&reply, PARTS("{\"text\":\"a\"}")), 0);
    assert_int_equal(reply.usage.total_tokens, 0);
    assert_int_equal(add(&reply, "{\"usageMetadata\":{\"promptTokenCount\":10,"
                                 "\"candidatesTokenCount\":2,\"totalTokenCount\":12}}"),
                     0);
    assert_int_equal(add(&reply, "{\"usageMetadata\":null}"), 0);
    assert_int_equal(add(&reply, "{\"usageMetadata\":{\"promptTokenCount\":\"10\","
                                 "\"candidatesTokenCount\":5,\"thoughtsTokenCount\":7}}"),
                     0);

    assert_int_equal(reply.usage.prompt_tokens, 10);
    assert_int_equal(reply.usage.answer_tokens, 5);
    assert_int_equal(reply.usage.thought_tokens, 7);
    assert_int_equal(reply.usage.total_tokens, 22);
    agt_reply_done(&reply);
}

static void absurd_counts_are_clamped(void **state)
{
    struct agt_reply reply;

    (void)state;
    agt_reply_init(&reply, agt_gemini_read, NULL, NULL);
    assert_int_equal(add(&reply, "{\"usageMetadata\":{\"promptTokenCount\":-1,"
                                 "\"candidatesTokenCount\":1e999,\"thoughtsTokenCount\":\"x\"}}"),
                     0);
    assert_int_equal(reply.usage.prompt_tokens, 0);
    assert_int_equal(reply.usage.answer_tokens, UINT32_MAX);
    assert_int_equal(reply.usage.thought_tokens, 0);
    assert_int_equal(reply.usage.total_tokens, UINT32_MAX);
    agt_reply_done(&reply);
}

static void names_are_kept_clean_and_short(void **state)
{
    struct agt_reply reply;
    char json[600];

    (void)state;
    agt_reply_init(&reply, agt_gemini_read, NULL, NULL);
    assert_int_equal(add(&reply, "{\"modelVersion\":\"gemini\\n2.5\",\"promptFeedback\":"
                                 "{\"blockReason\":\"SAFETY\"}}"),
                     0);
    assert_string_equal(reply.model_served, "gemini 2.5");
    assert_string_equal(reply.block_reason, "SAFETY");

    (void)snprintf(json, sizeof(json), "{\"modelVersion\":\"%0300d\xC3\xA9\"}", 0);
    assert_int_equal(add(&reply, json), 0);
    assert_int_equal(strlen(reply.model_served), sizeof(reply.model_served) - 1);
    agt_reply_done(&reply);
}

static void garbage_is_told_from_a_cut(void **state)
{
    static const struct {
        const char *data;
        bool is_cut;
        int code;
    } cases[] = {
        {"{\"candidates\":[", true, 0}, {"{\"candidates\":[", false, -EBADMSG},
        {"nonsense", false, -EBADMSG},  {"nonsense", true, -EBADMSG},
        {"[1]", false, -EBADMSG},       {"{\"a\":1} trailing", false, 0},
    };

    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(cases); i++) {
        struct agt_reply reply;

        agt_reply_init(&reply, agt_gemini_read, NULL, NULL);
        assert_int_equal(
            agt_reply_add(&reply, cases[i].data, strlen(cases[i].data), cases[i].is_cut),
            cases[i].code);
        agt_reply_done(&reply);
    }
}

static void errors_are_read_wherever_they_stand(void **state)
{
    static const char *const documents[] = {
        "{\"error\":{\"code\":503,\"message\":\"The model is\\noverloaded.\","
        "\"status\":\"UNAVAILABLE\"}}",
        "[{\"error\":{\"code\":503,\"message\":\"The model is\\noverloaded.\","
        "\"status\":\"UNAVAILABLE\"}}]",
        "{\n  \"error\": {\n    \"code\": \"503\",\n    \"message\": \"The model is overloaded.\",\n"
        "    \"status\": \"UNAVAILABLE\"\n  }\n}\n{\"error\":{}}",
    };

    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(documents); i++) {
        struct agt_reply reply;
        struct agt_reply_error error = AGT_REPLY_ERROR_INIT;

        agt_reply_init(&reply, agt_gemini_read, NULL, NULL);
        assert_int_equal(add(&reply, documents[i]), -EREMOTEIO);
        assert_true(agt_reply_error_parse(documents[i], strlen(documents[i]), &error));
        assert_int_equal(error.code, 503);
        assert_string_equal(error.status, "UNAVAILABLE");
        assert_string_equal(error.message, "The model is overloaded.");
        assert_memory_equal(error.message, reply.error.message, sizeof(error.message));
        assert_int_equal(error.retry_delay_ms, -1);
        agt_reply_done(&reply);
    }
}

static void details_of_an_error_are_read(void **state)
{
    static const char json[] =
        "{\"error\":{\"code\":429,\"status\":\"RESOURCE_EXHAUSTED\",\"message\":\"m\",\"details\":["
        "{\"@type\":\"type.googleapis.com/google.rpc.QuotaFailure\",\"violations\":[{\"quotaId\":"
        "\"GenerateRequestsPerDayPerProjectPerModel-FreeTier\",\"quotaValue\":\"50\"}]},"
        "{\"@type\":\"type.googleapis.com/google.rpc.Help\",\"links\":[]},"
        "{\"@type\":\"type.googleapis.com/google.rpc.ErrorInfo\",\"reason\":\"RATE\"},"
        "{\"@type\":\"type.googleapis.com/google.rpc.RetryInfo\",\"retryDelay\":\"58.9s\"}]}}";
    struct agt_reply_error error = AGT_REPLY_ERROR_INIT;

    (void)state;
    assert_true(agt_reply_error_parse(json, strlen(json), &error));
    assert_int_equal(error.code, 429);
    assert_string_equal(error.reason, "RATE");
    assert_int_equal(error.retry_delay_ms, 58900);
    assert_true(error.is_used_up);
}

static void what_is_no_error_is_not_taken_for_one(void **state)
{
    static const char *const bodies[] = {"",   "<html>502</html>",      "{}", "{\"error\":5}",
                                         "[]", "{\"error\":{\"code\":5"};

    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(bodies); i++) {
        struct agt_reply_error error = AGT_REPLY_ERROR_INIT;

        assert_false(agt_reply_error_parse(bodies[i], strlen(bodies[i]), &error));
        assert_false(error.is_set);
    }
}

static void durations_are_rounded_up(void **state)
{
    static const struct {
        const char *text;
        int64_t ms;
    } cases[] = {
        {"0s", 0},      {"58s", 58000},           {"1.5s", 1500}, {"86400s", 86400000},
        {"0.0001s", 1}, {"58.934310785s", 58935}, {"1.s", 1000},  {"0.9999999999999s", 1000}};

    static const char *const bad[] = {"", "s", "5", "-1s", "5 s", "5m", "1.5", "99999999999999s"};
    int64_t ms = -7;

    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(cases); i++) {
        assert_int_equal(agt_duration_parse(cases[i].text, &ms), 0);
        assert_int_equal(ms, cases[i].ms);
    }
    ms = -7;
    for (size_t i = 0; i < CR_ARRAY_SIZE(bad); i++)
        assert_int_equal(agt_duration_parse(bad[i], &ms), -EINVAL);
    assert_int_equal(ms, -7);
}

static void an_endless_answer_is_stopped(void **state)
{
    static const char *const pieces[] = {"0", " ", "the same again and again\\n", "\\u00e9"};

    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(pieces); i++) {
        struct agt_reply reply;
        char json[256];
        int r = 0;

        (void)snprintf(json, sizeof(json), PARTS("{\"text\":\"%s\"}"), pieces[i]);
        agt_reply_init(&reply, agt_gemini_read, NULL, NULL);
        for (int j = 0; j < 8192 && r == 0; j++)
            r = add(&reply, json);
        assert_int_equal(r, -ELOOP);
        assert_true(reply.text.size < 8192);
        agt_reply_done(&reply);
    }
}

static void long_honest_answers_are_not_stopped(void **state)
{
    struct agt_reply reply;
    char json[256];

    (void)state;
    agt_reply_init(&reply, agt_gemini_read, NULL, NULL);
    for (int i = 0; i < 2000; i++) {
        (void)snprintf(json, sizeof(json), PARTS("{\"text\":\"    assert f(%d) == %d\\n\"}"), i,
                       2 * i);
        assert_int_equal(add(&reply, json), 0);
    }
    agt_reply_done(&reply);
}

static void too_much_text_is_refused(void **state)
{
    enum {
        PIECE = 1 << 20
    };

    CR_AUTO_FREE char *json = malloc(PIECE + 200);
    struct agt_reply reply;
    size_t size;
    int r = 0;

    (void)state;
    assert_non_null(json);
    size = (size_t)snprintf(json, 200, "{\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"");
    for (uint32_t i = 0; i < PIECE; i++)
        json[size + i] = (char)('a' + (i * 2654435761u >> 16) % 26);
    size += PIECE;
    memcpy(json + size, "\"}]}}]}", 8);
    agt_reply_init(&reply, agt_gemini_read, NULL, NULL);
    for (int i = 0; i < 5 && r == 0; i++)
        r = add(&reply, json);
    assert_int_equal(r, -ENOSPC);
    assert_int_equal(reply.text.size, 4u << 20);
    agt_reply_done(&reply);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_are_put_together),
        cmocka_unit_test(usage_is_the_last_one_and_never_a_sum),
        cmocka_unit_test(absurd_counts_are_clamped),
        cmocka_unit_test(names_are_kept_clean_and_short),
        cmocka_unit_test(garbage_is_told_from_a_cut),
        cmocka_unit_test(errors_are_read_wherever_they_stand),
        cmocka_unit_test(details_of_an_error_are_read),
        cmocka_unit_test(what_is_no_error_is_not_taken_for_one),
        cmocka_unit_test(durations_are_rounded_up),
        cmocka_unit_test(an_endless_answer_is_stopped),
        cmocka_unit_test(long_honest_answers_are_not_stopped),
        cmocka_unit_test(too_much_text_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
