/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/err.h"
#include "tests/harness/test.h"
#include "tests/integration/orchestrator/model_peer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What is sent, what is read, and what is asked again: whole and broken streams, byte by byte. */

static void request_is_what_gemini_expects(void **state)
{
    struct model_peer fixture;
    const char *request;

    (void)state;
    MODEL_PEER_PLAY(&fixture, 30000, {.bytes = GOOD});
    request = fixture.peer.requests[0];
    assert_memory_equal(request,
                        "POST /v1beta/models/gemini-2.5-flash:streamGenerateContent?alt=sse "
                        "HTTP/1.1\r\n",
                        77);
    assert_non_null(strstr(request, "\r\nContent-Type: application/json\r\n"));
    assert_null(strstr(request, "Expect:"));
    assert_null(strstr(request, "Accept-Encoding"));
    assert_string_equal(strstr(request, "\r\n\r\n") + 4,
                        "{\"contents\":[{\"role\":\"user\",\"parts\":[{\"text\":\"prompt\"}]}],"
                        "\"systemInstruction\":{\"role\":\"user\",\"parts\":[{\"text\":\"system\"}]"
                        "}}");
    assert_string_equal(cr_buf_str(&fixture.caller.text), "one two");
    assert_string_equal(fixture.caller.served, "m-1");
    model_peer_stop(&fixture);
}

static void whole_streams_are_read_however_they_come(void **state)
{
    static const struct peer_line lines[] = {
        {.bytes = GOOD, .step = 1},
        {.bytes =
             HEAD CHUNK("one ") "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"two"
                                "\"}]},\"finishReason\":\"STOP\"}]}"}, /* no blank line */
        {.bytes = HEAD ": ping\n\n" CHUNK("one ") ": ping\n" LAST("two") "data: [DONE]\n\n"},
        {.bytes = "HTTP/1.1 100 Continue\r\n\r\n" GOOD},
        {.bytes =
             "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
             "4\r\ndata\r\n3\r\n: {\r\n48\r\n"
             "\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"one two\"}]},\"finishReason\":\""
             "\r\n9\r\nSTOP\"}]}\n\r\n1\r\n\n\r\n0\r\nTrailer: x\r\n\r\n"},
        /* alt=sse was not understood: one JSON array. */
        {.bytes = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n"
                  "[{\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"one \"}]}}]}\n,\r\n"
                  "{\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"two\"}]},\"finishReason\":"
                  "\"STOP\"}]}]\n"},
        /* Broken off after the last chunk. */
        {.bytes = GOOD, .after = PEER_RESET},
        {.bytes = GOOD, .after = PEER_HOLD},
    };

    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(lines); i++) {
        struct model_peer fixture;

        model_peer_play(&fixture, &lines[i], 1, 30000);
        if (fixture.caller.end != AGT_MODEL_OK)
            fail_msg("case %zu: %s", i, fixture.caller.message);
        assert_string_equal(cr_buf_str(&fixture.caller.text), "one two");
        assert_string_equal(cr_buf_str(&fixture.caller.deltas), "one two");
        assert_int_equal(fixture.caller.calls, 1);
        model_peer_stop(&fixture);
    }
}

static void a_character_split_between_packets_is_whole(void **state)
{
    struct model_peer fixture;

    (void)state;
    MODEL_PEER_PLAY(&fixture, 30000,
                    {.bytes = HEAD CHUNK("\xF0\x9F\x98\x80") LAST("\\ud83d\\ude00"), .step = 1});
    assert_string_equal(cr_buf_str(&fixture.caller.text), "\xF0\x9F\x98\x80\xF0\x9F\x98\x80");
    model_peer_stop(&fixture);
}

/* The first answer breaks off after text; the second is whole. */
static void a_broken_stream_is_started_again_and_told(void **state)
{
    static const struct peer_line breaks[] = {
        {.bytes = HEAD CHUNK("lost")},
        {.bytes = HEAD CHUNK("lost") "data: {\"candid"},
        {.bytes = HEAD CHUNK("lost"), .after = PEER_RESET},
        {.bytes = HEAD CHUNK("lost"), .after = PEER_HOLD},
        {.bytes = HEAD CHUNK("lost") "data: {\"error\":{\"code\":503,\"message\":\"m\"}}\r\n\r\n",
         .after = PEER_HOLD},
        {.bytes =
             HEAD CHUNK("lost") "{\n  \"error\": {\n    \"code\": 503,\n    \"message\": \"" KEY
                                "\"\n  }\n}\n"},
        {.bytes = HEAD CHUNK("lost") "[{\"error\":{\"code\":503}}]"},
        {.bytes = HEAD CHUNK("lost") "data: {\"broken\"\n\n"},
        {.bytes = HEAD CHUNK("lost") "data: {}\n\n: 1\n", .step = 1, .after = PEER_HOLD},
    };

    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(breaks); i++) {
        struct model_peer fixture;

        MODEL_PEER_PLAY(&fixture, 30000, breaks[i], {.bytes = GOOD});
        if (fixture.caller.end != AGT_MODEL_OK)
            fail_msg("case %zu: %s", i, fixture.caller.message);
        assert_string_equal(cr_buf_str(&fixture.caller.text), "one two");
        assert_string_equal(cr_buf_str(&fixture.caller.deltas), "one two");
        assert_int_equal(fixture.caller.calls, 2);
        assert_int_equal(fixture.caller.restarts, 1);
        assert_string_not_equal(fixture.caller.retry_reason, "");
        model_peer_stop(&fixture);
    }
}

static void a_request_without_answer_is_repeated_once(void **state)
{
    static const struct peer_line silences[] = {
        {.after = PEER_CLOSE}, {.after = PEER_RESET}, {.after = PEER_HOLD}};

    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(silences); i++) {
        struct model_peer fixture;

        MODEL_PEER_PLAY(&fixture, 30000, silences[i], silences[i], {.bytes = GOOD});
        assert_int_equal(fixture.caller.end, AGT_MODEL_UNAVAILABLE);
        assert_int_equal(fixture.caller.calls, 2);
        assert_int_equal(fixture.caller.restarts, 0);
        assert_int_equal(fixture.peer.request_count, 2);
        model_peer_stop(&fixture);
    }
}

/* libcurl by itself would send the body again when a kept connection turns out dead. */
static void a_dead_kept_connection_costs_one_request(void **state)
{
    static const char answer[] =
        "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"first\"}]},"
        "\"finishReason\":\"STOP\"}]}\n\n";
    char kept[256];
    const struct peer_line lines[] = {
        {.bytes = kept, .after = PEER_KEEP},
        {.after = PEER_CLOSE},
        {.bytes = GOOD},
    };
    struct model_peer fixture;
    struct model_caller second;

    (void)state;
    /* With one byte more or less the connection is not kept, and nothing is shown. */
    (void)snprintf(kept, sizeof(kept), "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n%s",
                   strlen(answer), answer);
    model_peer_play(&fixture, lines, CR_ARRAY_SIZE(lines), 30000);
    assert_string_equal(cr_buf_str(&fixture.caller.text), "first");
    model_caller_init(&second);
    model_caller_run(&second, fixture.client, NULL, "prompt", 30000);

    assert_int_equal(second.end, AGT_MODEL_OK);
    assert_int_equal(second.calls, 2);
    assert_int_equal(second.retries, 1);
    assert_int_equal(fixture.peer.request_count, 3);
    assert_int_equal(fixture.peer.connections[1], fixture.peer.connections[0]);
    assert_int_not_equal(fixture.peer.connections[2], fixture.peer.connections[1]);
    model_caller_done(&second);
    model_peer_stop(&fixture);
}

static void a_busy_server_is_asked_again(void **state)
{
    static const char *const failures[] = {
        FAILURE("503 Service Unavailable", "",
                "{\"error\":{\"code\":503,\"message\":\"overloaded\"}}"),
        FAILURE("502 Bad Gateway", "", "<html>bad gateway</html>"),
        FAILURE("500 Internal Server Error", "", ""),
        FAILURE("504 Gateway Timeout", "", "[{\"error\":{\"code\":504}}]"),
        FAILURE("408 Request Timeout", "", ""),
        FAILURE("429 Too Many Requests", "", ""),
    };

    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(failures); i++) {
        struct model_peer fixture;

        MODEL_PEER_PLAY(&fixture, 30000, {.bytes = failures[i]}, {.bytes = failures[i]},
                        {.bytes = GOOD});
        assert_int_equal(fixture.caller.end, AGT_MODEL_OK);
        assert_int_equal(fixture.caller.calls, 3);
        assert_int_equal(fixture.caller.retries, 2);
        assert_int_equal(fixture.caller.restarts, 0);
        model_peer_stop(&fixture);
    }
}

static void attempts_are_counted_and_end(void **state)
{
    static const struct peer_line busy = {.bytes = FAILURE("503 Service Unavailable", "", "")};
    struct model_peer fixture;

    (void)state;
    MODEL_PEER_PLAY(&fixture, 30000, busy, busy, busy, busy, {.bytes = GOOD});
    assert_int_equal(fixture.caller.end, AGT_MODEL_UNAVAILABLE);
    assert_int_equal(fixture.caller.calls, 4);
    assert_int_equal(fixture.peer.request_count, 4);
    model_peer_stop(&fixture);
}

static void a_wait_that_the_server_names_is_kept(void **state)
{
    static const struct {
        const char *failure;
        uint32_t min_ms;
    } cases[] = {
        {FAILURE("429 Too Many Requests", "",
                 "{\"error\":{\"code\":429,\"details\":[{\"@type\":"
                 "\"type.googleapis.com/google.rpc.RetryInfo\",\"retryDelay\":\"0.4s\"}]}}"),
         400},
        {FAILURE("503 Service Unavailable", "Retry-After: 1\r\n", ""), 1000},
    };

    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(cases); i++) {
        struct model_peer fixture;

        MODEL_PEER_PLAY(&fixture, 30000, {.bytes = cases[i].failure}, {.bytes = GOOD});
        assert_int_equal(fixture.caller.end, AGT_MODEL_OK);
        assert_true(fixture.caller.elapsed_ms >= cases[i].min_ms);
        model_peer_stop(&fixture);
    }
}

static void a_wait_past_the_deadline_is_not_begun(void **state)
{
    struct model_peer fixture;

    (void)state;
    MODEL_PEER_PLAY(&fixture, 20000,
                    {.bytes = FAILURE("429 Too Many Requests", "",
                                      "{\"error\":{\"code\":429,\"details\":[{\"@type\":"
                                      "\"type.googleapis.com/google.rpc.RetryInfo\",\"retryDelay\":"
                                      "\"86400s\"}]}}")},
                    {.bytes = GOOD});
    assert_int_equal(fixture.caller.end, AGT_MODEL_QUOTA);
    assert_int_equal(fixture.caller.calls, 1);
    assert_int_equal(fixture.caller.retries, 0);
    assert_true(fixture.caller.elapsed_ms < 15000);
    assert_non_null(strstr(fixture.caller.message, "8640"));
    model_peer_stop(&fixture);
}

static void a_used_up_day_is_not_asked_again(void **state)
{
    struct model_peer fixture;

    (void)state;
    MODEL_PEER_PLAY(
        &fixture, 5000,
        {.bytes = FAILURE("429 Too Many Requests", "",
                          "{\"error\":{\"code\":429,\"message\":\"m\",\"details\":[{\"@type\":"
                          "\"type.googleapis.com/google.rpc.QuotaFailure\",\"violations\":["
                          "{\"quotaId\":\"GenerateRequestsPerDay-FreeTier\"}]}]}}")},
        {.bytes = GOOD});
    assert_int_equal(fixture.caller.end, AGT_MODEL_QUOTA);
    assert_int_equal(fixture.caller.calls, 1);
    model_peer_stop(&fixture);
}

static void a_removed_model_that_answers_429_is_found_out(void **state)
{
    static const char used_up[] =
        FAILURE("429 Too Many Requests", "", "{\"error\":{\"code\":429,\"message\":\"limit: 0\"}}");

    static const struct {
        const char *entry;
        enum agt_model_end end;
    } cases[] = {
        {FAILURE("404 Not Found", "", "{\"error\":{\"code\":404,\"status\":\"NOT_FOUND\"}}"),
         AGT_MODEL_GONE},
        {FAILURE("404 Not Found", "", "<html>a gateway</html>"), AGT_MODEL_QUOTA},
        {FAILURE("200 OK", "", "{\"name\":\"models/gemini-2.5-flash\"}"), AGT_MODEL_QUOTA},
        {NULL, AGT_MODEL_QUOTA},
    };

    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(cases); i++) {
        struct model_peer fixture;

        MODEL_PEER_PLAY(&fixture, 5000, {.bytes = used_up}, {.bytes = cases[i].entry});
        assert_int_equal(fixture.caller.end, cases[i].end);
        assert_int_equal(fixture.caller.calls, 1);
        assert_int_equal(fixture.peer.request_count, 2);
        assert_memory_equal(fixture.peer.requests[1],
                            "GET /v1beta/models/gemini-2.5-flash HTTP/1.1\r\n", 46);
        model_peer_stop(&fixture);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(request_is_what_gemini_expects),
        cmocka_unit_test(whole_streams_are_read_however_they_come),
        cmocka_unit_test(a_character_split_between_packets_is_whole),
        cmocka_unit_test(a_broken_stream_is_started_again_and_told),
        cmocka_unit_test(a_request_without_answer_is_repeated_once),
        cmocka_unit_test(a_dead_kept_connection_costs_one_request),
        cmocka_unit_test(a_busy_server_is_asked_again),
        cmocka_unit_test(attempts_are_counted_and_end),
        cmocka_unit_test(a_wait_that_the_server_names_is_kept),
        cmocka_unit_test(a_wait_past_the_deadline_is_not_begun),
        cmocka_unit_test(a_used_up_day_is_not_asked_again),
        cmocka_unit_test(a_removed_model_that_answers_429_is_found_out),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
