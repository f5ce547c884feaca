/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/err.h"
#include "orchestrator/model/model.h"
#include "tests/harness/test.h"
#include "tests/integration/orchestrator/model_caller.h"
#include "tests/integration/orchestrator/scripted_peer.h"

#include <stdlib.h>
#include <string.h>

/* The real client against servers that misbehave, byte by byte. */

#define KEY "AIzaCanary-0123456789"

#define HEAD "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"

#define CHUNK(text)                                                                                \
    "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"" text "\"}]}}]}\r\n\r\n"

#define LAST(text)                                                                                 \
    "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"" text                            \
    "\"}]},\"finishReason\":\"STOP\"}],\"modelVersion\":\"m-1\"}\r\n\r\n"

#define FAILURE(status, headers, body)                                                             \
    "HTTP/1.1 " status "\r\nContent-Type: application/json\r\nConnection: close\r\n" headers       \
    "\r\n" body

#define GOOD HEAD CHUNK("one ") LAST("two")

struct fixture {
    int fds;
    struct peer peer;
    struct agt_model *client;
    struct model_caller caller;
};

static void fixture_start(struct fixture *fixture, const struct peer_line *lines, size_t count)
{
    char base_url[64];
    const struct agt_model_options options = {
        .api_key = KEY,
        .base_url = base_url,
        .connect_timeout_ms = 2000,
        .first_byte_timeout_ms = 300,
        .idle_timeout_ms = 300,
        .first_retry_delay_ms = 10,
    };
    struct cr_err err = CR_ERR_INIT;

    fixture->fds = test_count_fds();
    peer_start(&fixture->peer, lines, count);
    model_caller_init(&fixture->caller);
    (void)snprintf(base_url, sizeof(base_url), "http://127.0.0.1:%u", fixture->peer.port);
    if (agt_gemini_new(&options, &fixture->client, &err) < 0)
        fail_msg("%s", err.text);
}

static void fixture_stop(struct fixture *fixture)
{
    fixture->client->ops->free(fixture->client);
    peer_stop(&fixture->peer);
    assert_int_equal(fixture->caller.ends, 1);
    assert_int_equal(test_count_fds(), fixture->fds);
    /* Whatever happened, the key went out in its header and came back nowhere. */
    for (size_t i = 0; i < fixture->peer.request_count; i++) {
        assert_non_null(strstr(fixture->peer.requests[i], "\r\nx-goog-api-key: " KEY "\r\n"));
        assert_ptr_equal(strstr(fixture->peer.requests[i], KEY),
                         strstr(fixture->peer.requests[i], ": " KEY) + 2);
    }
    assert_null(strstr(fixture->caller.message, KEY));
    assert_null(strstr(fixture->caller.retry_reason, KEY));
    assert_null(strstr(cr_buf_str(&fixture->caller.text), KEY));
    model_caller_done(&fixture->caller);
    peer_done(&fixture->peer);
}

static void play(struct fixture *fixture, const struct peer_line *lines, size_t count,
                 uint32_t timeout_ms)
{
    fixture_start(fixture, lines, count);
    model_caller_run(&fixture->caller, fixture->client, "system", "prompt", timeout_ms);
}

#define PLAY(fixture, timeout_ms, ...)                                                             \
    play(fixture, (const struct peer_line[]){__VA_ARGS__},                                         \
         sizeof((const struct peer_line[]){__VA_ARGS__}) / sizeof(struct peer_line), timeout_ms)

static void request_is_what_gemini_expects(void **state)
{
    struct fixture fixture;
    const char *request;

    (void)state;
    PLAY(&fixture, 10000, {.bytes = GOOD});
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
    fixture_stop(&fixture);
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
        struct fixture fixture;

        play(&fixture, &lines[i], 1, 10000);
        if (fixture.caller.end != AGT_MODEL_OK)
            fail_msg("case %zu: %s", i, fixture.caller.message);
        assert_string_equal(cr_buf_str(&fixture.caller.text), "one two");
        assert_string_equal(cr_buf_str(&fixture.caller.deltas), "one two");
        assert_int_equal(fixture.caller.calls, 1);
        fixture_stop(&fixture);
    }
}

static void a_character_split_between_packets_is_whole(void **state)
{
    struct fixture fixture;

    (void)state;
    PLAY(&fixture, 10000,
         {.bytes = HEAD CHUNK("\xF0\x9F\x98\x80") LAST("\\ud83d\\ude00"), .step = 1});
    assert_string_equal(cr_buf_str(&fixture.caller.text), "\xF0\x9F\x98\x80\xF0\x9F\x98\x80");
    fixture_stop(&fixture);
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
        struct fixture fixture;

        PLAY(&fixture, 10000, breaks[i], {.bytes = GOOD});
        if (fixture.caller.end != AGT_MODEL_OK)
            fail_msg("case %zu: %s", i, fixture.caller.message);
        assert_string_equal(cr_buf_str(&fixture.caller.text), "one two");
        assert_string_equal(cr_buf_str(&fixture.caller.deltas), "one two");
        assert_int_equal(fixture.caller.calls, 2);
        assert_int_equal(fixture.caller.restarts, 1);
        assert_string_not_equal(fixture.caller.retry_reason, "");
        fixture_stop(&fixture);
    }
}

static void a_request_without_answer_is_repeated_once(void **state)
{
    static const struct peer_line silences[] = {
        {.after = PEER_CLOSE}, {.after = PEER_RESET}, {.after = PEER_HOLD}};

    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(silences); i++) {
        struct fixture fixture;

        PLAY(&fixture, 10000, silences[i], silences[i], {.bytes = GOOD});
        assert_int_equal(fixture.caller.end, AGT_MODEL_UNAVAILABLE);
        assert_int_equal(fixture.caller.calls, 2);
        assert_int_equal(fixture.caller.restarts, 0);
        assert_int_equal(fixture.peer.request_count, 2);
        fixture_stop(&fixture);
    }
}

/* libcurl by itself would send the body again when a kept connection turns out dead. */
static void a_dead_kept_connection_costs_one_request(void **state)
{
    static const struct peer_line lines[] = {
        {.bytes =
             "HTTP/1.1 200 OK\r\nContent-Length: 96\r\n\r\n"
             "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"first\"}]},\"finishReason\""
             ":\"STOP\"}]}\n\n",
         .after = PEER_KEEP},
        {.after = PEER_CLOSE},
        {.bytes = GOOD},
    };
    struct fixture fixture;
    struct model_caller second;

    (void)state;
    play(&fixture, lines, CR_ARRAY_SIZE(lines), 10000);
    assert_string_equal(cr_buf_str(&fixture.caller.text), "first");
    model_caller_init(&second);
    model_caller_run(&second, fixture.client, NULL, "prompt", 10000);

    assert_int_equal(second.end, AGT_MODEL_OK);
    assert_int_equal(second.calls, 2);
    assert_int_equal(second.retries, 1);
    assert_int_equal(fixture.peer.request_count, 3);
    model_caller_done(&second);
    fixture_stop(&fixture);
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
        struct fixture fixture;

        PLAY(&fixture, 10000, {.bytes = failures[i]}, {.bytes = failures[i]}, {.bytes = GOOD});
        assert_int_equal(fixture.caller.end, AGT_MODEL_OK);
        assert_int_equal(fixture.caller.calls, 3);
        assert_int_equal(fixture.caller.retries, 2);
        assert_int_equal(fixture.caller.restarts, 0);
        fixture_stop(&fixture);
    }
}

static void attempts_are_counted_and_end(void **state)
{
    static const struct peer_line busy = {.bytes = FAILURE("503 Service Unavailable", "", "")};
    struct fixture fixture;

    (void)state;
    PLAY(&fixture, 10000, busy, busy, busy, busy, {.bytes = GOOD});
    assert_int_equal(fixture.caller.end, AGT_MODEL_UNAVAILABLE);
    assert_int_equal(fixture.caller.calls, 4);
    assert_int_equal(fixture.peer.request_count, 4);
    fixture_stop(&fixture);
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
        struct fixture fixture;

        PLAY(&fixture, 10000, {.bytes = cases[i].failure}, {.bytes = GOOD});
        assert_int_equal(fixture.caller.end, AGT_MODEL_OK);
        assert_true(fixture.caller.elapsed_ms >= cases[i].min_ms);
        fixture_stop(&fixture);
    }
}

static void a_wait_past_the_deadline_is_not_begun(void **state)
{
    struct fixture fixture;

    (void)state;
    PLAY(&fixture, 5000,
         {.bytes = FAILURE("429 Too Many Requests", "",
                           "{\"error\":{\"code\":429,\"details\":[{\"@type\":"
                           "\"type.googleapis.com/google.rpc.RetryInfo\",\"retryDelay\":"
                           "\"86400s\"}]}}")},
         {.bytes = GOOD});
    assert_int_equal(fixture.caller.end, AGT_MODEL_QUOTA);
    assert_int_equal(fixture.caller.calls, 1);
    assert_int_equal(fixture.caller.retries, 0);
    assert_true(fixture.caller.elapsed_ms < 3000);
    assert_non_null(strstr(fixture.caller.message, "8640"));
    fixture_stop(&fixture);
}

static void a_used_up_day_is_not_asked_again(void **state)
{
    struct fixture fixture;

    (void)state;
    PLAY(&fixture, 5000,
         {.bytes = FAILURE("429 Too Many Requests", "",
                           "{\"error\":{\"code\":429,\"message\":\"m\",\"details\":[{\"@type\":"
                           "\"type.googleapis.com/google.rpc.QuotaFailure\",\"violations\":["
                           "{\"quotaId\":\"GenerateRequestsPerDay-FreeTier\"}]}]}}")},
         {.bytes = GOOD});
    assert_int_equal(fixture.caller.end, AGT_MODEL_QUOTA);
    assert_int_equal(fixture.caller.calls, 1);
    fixture_stop(&fixture);
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
        struct fixture fixture;

        PLAY(&fixture, 5000, {.bytes = used_up}, {.bytes = cases[i].entry});
        assert_int_equal(fixture.caller.end, cases[i].end);
        assert_int_equal(fixture.caller.calls, 1);
        assert_int_equal(fixture.peer.request_count, 2);
        assert_memory_equal(fixture.peer.requests[1],
                            "GET /v1beta/models/gemini-2.5-flash HTTP/1.1\r\n", 46);
        fixture_stop(&fixture);
    }
}

static void a_redirect_is_not_followed(void **state)
{
    static const struct peer_line trap = {.bytes = GOOD};
    struct peer other;
    char redirect[256];
    struct fixture fixture;

    (void)state;
    peer_start(&other, &trap, 1);
    (void)snprintf(redirect, sizeof(redirect),
                   "HTTP/1.1 307 Temporary Redirect\r\nLocation: http://127.0.0.1:%u/\r\n"
                   "Content-Length: 0\r\n\r\n",
                   other.port);
    PLAY(&fixture, 5000, {.bytes = redirect}, {.bytes = GOOD});
    assert_int_equal(fixture.caller.end, AGT_MODEL_BAD_REQUEST);
    assert_int_equal(fixture.caller.calls, 1);
    assert_non_null(strstr(fixture.caller.message, "GEMINI_BASE_URL"));
    fixture_stop(&fixture);
    peer_stop(&other);
    assert_int_equal(other.request_count, 0);
    peer_done(&other);
}

static void an_echoed_key_is_blotted_out(void **state)
{
    static const char *const answers[] = {
        FAILURE("400 Bad Request", "",
                "{\"error\":{\"code\":400,\"message\":\"bad key " KEY "!\"}}"),
        FAILURE("400 Bad Request", "",
                "{\"error\":{\"code\":400,\"message\":\"bad key \\u0041IzaCanary-0123456789\"}}"),
        HEAD "data: {\"error\":{\"code\":400,\"message\":\"" KEY "\"}}\n\n",
        HEAD LAST("your key is " KEY),
        HEAD "data: {\"candidates\":[{\"finishReason\":\"SAFETY\",\"finishMessage\":\"" KEY
             "\"}]}\n\n",
    };

    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(answers); i++) {
        struct fixture fixture;

        PLAY(&fixture, 5000, {.bytes = answers[i]}); /* fixture_stop() looks for the key */
        assert_non_null(strstr(i == 3 ? cr_buf_str(&fixture.caller.text) : fixture.caller.message,
                               "*********************"));
        fixture_stop(&fixture);
    }
}

static void a_trickle_is_not_waited_for(void **state)
{
    static const struct peer_line lines[] = {
        {.bytes = "HTTP/1.1 200 OK\r\nX-Slow: 012345678901234567890123456789\r\n\r\n",
         .step = 1,
         .delay_ms = 50},
        {.bytes = HEAD},
        {.bytes = HEAD "data: 01234567890123456789012345678901234567890123456789",
         .step = 60,
         .delay_ms = 50},
    };

    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(lines); i++) {
        struct peer_line line = lines[i];
        struct fixture fixture;

        line.after = PEER_HOLD;
        PLAY(&fixture, 10000, line, line);
        assert_int_equal(fixture.caller.end, AGT_MODEL_UNAVAILABLE);
        assert_int_equal(fixture.caller.calls, 2);
        assert_true(fixture.caller.elapsed_ms < 4000);
        fixture_stop(&fixture);
    }
}

static void too_much_is_not_read(void **state)
{
    enum {
        LINE = 10 << 20
    };

    CR_AUTO_FREE char *line = malloc(sizeof(HEAD) + LINE);
    CR_AUTO_FREE char *head = malloc(100000);
    struct fixture fixture;

    (void)state;
    assert_non_null(line);
    memcpy(line, HEAD, sizeof(HEAD) - 1);
    memset(line + sizeof(HEAD) - 1, 'x', LINE);
    PLAY(&fixture, 15000, {.bytes = line, .size = sizeof(HEAD) - 1 + LINE}, {.bytes = GOOD});
    assert_int_equal(fixture.caller.end, AGT_MODEL_BAD_ANSWER);
    assert_int_equal(fixture.caller.calls, 1);
    fixture_stop(&fixture);

    /* A head of 90,000 bytes. */
    assert_non_null(head);
    (void)snprintf(head, 100, "HTTP/1.1 200 OK\r\n");
    for (size_t i = 0; i < 900; i++)
        (void)snprintf(head + 17 + i * 100, 101, "X-%04zu: %090d\r\n", i, 0);
    PLAY(&fixture, 15000, {.bytes = head}, {.bytes = GOOD});
    assert_int_equal(fixture.caller.end, AGT_MODEL_BAD_ANSWER);
    fixture_stop(&fixture);
}

static void a_stream_without_end_is_stopped(void **state)
{
    static char comments[] = ": 0123456789012345678901234567890123456789012345678901234567890\n";
    CR_AUTO_FREE char *block = malloc(64 * 1024 + sizeof(HEAD));
    struct fixture fixture;

    (void)state;
    assert_non_null(block);
    for (size_t i = 0; i < 1024; i++)
        memcpy(block + i * 64, comments, 64);
    /* The head as a comment would spoil the stream, so it goes with the first bytes of it. */
    memcpy(block, HEAD, sizeof(HEAD) - 1);
    PLAY(&fixture, 15000, {.bytes = block, .size = 64 * 1024, .repeat = 1024}, {.bytes = GOOD});
    assert_int_equal(fixture.caller.end, AGT_MODEL_BAD_ANSWER);
    assert_non_null(strstr(fixture.caller.message, "more than is read"));
    fixture_stop(&fixture);
}

static void what_is_not_gemini_is_told_so(void **state)
{
    static const char *const answers[] = {
        "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<html>hello</html>\n",
        ("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Encoding: gzip\r\n\r\n"
         "\x1f\x8b\x08\x01\x02\x03"),
        "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 404 Not Found\r\n\r\nnginx",
        "SSH-2.0-OpenSSH_9.2p1\r\n",
    };

    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(answers); i++) {
        struct fixture fixture;

        PLAY(&fixture, 5000, {.bytes = answers[i]}, {.bytes = answers[i]});
        assert_true(fixture.caller.end == AGT_MODEL_BAD_ANSWER ||
                    fixture.caller.end == AGT_MODEL_UNAVAILABLE);
        assert_true(fixture.caller.calls <= 2);
        assert_string_not_equal(fixture.caller.message, "");
        fixture_stop(&fixture);
    }
}

static void nobody_there_is_told(void **state)
{
    struct fixture fixture;
    struct agt_model_call *call;

    (void)state;
    fixture_start(&fixture, NULL, 0);
    peer_stop(&fixture.peer);
    call = model_caller_start(&fixture.caller, fixture.client, NULL, "prompt", 10000);
    model_caller_wait(&fixture.caller);
    assert_int_equal(fixture.caller.end, AGT_MODEL_UNAVAILABLE);
    assert_int_equal(fixture.caller.calls, 4);
    assert_non_null(strstr(fixture.caller.message, "127.0.0.1"));
    fixture.client->ops->unref(call);
    fixture.client->ops->free(fixture.client);
    model_caller_done(&fixture.caller);
    peer_done(&fixture.peer);
}

static void cancel_ends_the_wait_before_a_retry(void **state)
{
    struct fixture fixture;
    struct agt_model_call *call;
    uint32_t retries = 0;

    (void)state;
    fixture_start(&fixture,
                  &(const struct peer_line){
                      .bytes = FAILURE("503 Service Unavailable", "Retry-After: 30\r\n", "")},
                  1);
    call = model_caller_start(&fixture.caller, fixture.client, NULL, "prompt", 60000);
    while (retries == 0) {
        (void)pthread_mutex_lock(&fixture.caller.lock);
        retries = fixture.caller.retries;
        (void)pthread_mutex_unlock(&fixture.caller.lock);
        (void)sched_yield();
    }
    fixture.client->ops->cancel(call);
    model_caller_wait(&fixture.caller);
    assert_int_equal(fixture.caller.end, AGT_MODEL_CANCELLED);
    assert_int_equal(fixture.caller.calls, 1);
    fixture.client->ops->unref(call);
    fixture_stop(&fixture);
}

static void bad_settings_and_calls_are_refused(void **state)
{
    static const struct {
        struct agt_model_options options;
        const char *word;
    } cases[] = {
        {{.base_url = "http://example.org"}, "GEMINI_BASE_URL"},
        {{.base_url = "https://example.org?x=1"}, "GEMINI_BASE_URL"},
        {{.model = "../etc"}, "GEMINI_MODEL"},
        {{.api_key = "two\nlines-of-a-key"}, "GEMINI_API_KEY"},
    };
    const struct agt_model_options no_key = {.base_url = "http://127.0.0.1:9"};
    const struct agt_model_request request = {.prompt = "p", .deadline_ns = INT64_MAX};
    const struct agt_model_handlers handlers = {0};
    struct agt_model *client = NULL;
    struct agt_model_call *call = NULL;
    struct cr_err err = CR_ERR_INIT;

    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(cases); i++) {
        assert_int_equal(agt_gemini_new(&cases[i].options, &client, &err), -EINVAL);
        assert_non_null(strstr(err.text, cases[i].word));
        assert_null(strstr(err.text, "lines-of-a-key"));
    }
    assert_int_equal(agt_gemini_new(&no_key, &client, NULL), 0);
    assert_false(client->ops->is_configured(client));
    assert_string_equal(client->ops->default_model(client), "gemini-2.5-flash");
    assert_int_equal(client->ops->start(client, &request, &handlers, &call, &err), -ENOKEY);
    assert_string_equal(err.text, agt_gemini_no_key_help);
    assert_null(call);
    client->ops->free(client);
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
        cmocka_unit_test(a_redirect_is_not_followed),
        cmocka_unit_test(an_echoed_key_is_blotted_out),
        cmocka_unit_test(a_trickle_is_not_waited_for),
        cmocka_unit_test(too_much_is_not_read),
        cmocka_unit_test(a_stream_without_end_is_stopped),
        cmocka_unit_test(what_is_not_gemini_is_told_so),
        cmocka_unit_test(nobody_there_is_told),
        cmocka_unit_test(cancel_ends_the_wait_before_a_retry),
        cmocka_unit_test(bad_settings_and_calls_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
