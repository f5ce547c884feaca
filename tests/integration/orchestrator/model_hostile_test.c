/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/clock.h"
#include "common/err.h"
#include "tests/harness/test.h"
#include "tests/integration/orchestrator/model_peer.h"

#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Servers that lie, trickle, never end or are no model, and settings that cannot work. */

static void a_redirect_is_not_followed(void **state)
{
    static const struct peer_line trap = {.bytes = GOOD};
    struct peer other;
    char redirect[256];
    struct model_peer fixture;

    (void)state;
    peer_start(&other, &trap, 1);
    (void)snprintf(redirect, sizeof(redirect),
                   "HTTP/1.1 307 Temporary Redirect\r\nLocation: http://127.0.0.1:%u/\r\n"
                   "Content-Length: 0\r\n\r\n",
                   other.port);
    MODEL_PEER_PLAY(&fixture, 5000, {.bytes = redirect}, {.bytes = GOOD});
    assert_int_equal(fixture.caller.end, AGT_MODEL_BAD_REQUEST);
    assert_int_equal(fixture.caller.calls, 1);
    assert_non_null(strstr(fixture.caller.message, "GEMINI_BASE_URL"));
    model_peer_stop(&fixture);
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
        struct model_peer fixture;

        MODEL_PEER_PLAY(&fixture, 5000,
                        {.bytes = answers[i]}); /* model_peer_stop() looks for the key */
        assert_non_null(strstr(i == 3 ? cr_buf_str(&fixture.caller.text) : fixture.caller.message,
                               "*********************"));
        model_peer_stop(&fixture);
    }
}

#define ESCAPED "\\u0041IzaCanary-0123456789"
#define ESCAPED_16                                                                                 \
    ESCAPED ESCAPED ESCAPED ESCAPED ESCAPED ESCAPED ESCAPED ESCAPED ESCAPED ESCAPED ESCAPED        \
        ESCAPED ESCAPED ESCAPED ESCAPED ESCAPED

/* The text is cut after 319 bytes, in the middle of a key. */
static void an_echoed_key_that_is_cut_is_blotted_out(void **state)
{
    struct model_peer fixture;

    (void)state;
    MODEL_PEER_PLAY(
        &fixture, 5000,
        {.bytes = FAILURE("400 Bad Request", "",
                          "{\"error\":{\"code\":400,\"message\":\"" ESCAPED_16 "\"}}")});
    assert_non_null(strstr(fixture.caller.message, "*********************"));
    assert_null(strstr(fixture.caller.message, "AIza"));
    model_peer_stop(&fixture);
}

/* What on_list told, handed to the test's thread. */
struct listed {
    char first[64];
    atomic_bool is_there;
};

static void on_list(void *user, const struct agt_model_list *list)
{
    struct listed *listed = user;

    assert_int_equal(list->end, AGT_MODEL_OK);
    assert_int_equal(list->count, 1);
    (void)snprintf(listed->first, sizeof(listed->first), "%s", list->names[0]);
    atomic_store(&listed->is_there, true);
}

static void an_echoed_key_is_blotted_out_of_a_list(void **state)
{
    static const char *const answers[] = {
        HEAD "{\"models\":[{\"name\":\"models/" KEY "\"}]}",
        HEAD "{\"models\":[{\"name\":\"models/\\u0041IzaCanary-0123456789\"}]}",
    };

    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(answers); i++) {
        struct model_peer fixture;
        struct listed listed = {.first = ""};

        MODEL_PEER_PLAY(&fixture, 5000, {.bytes = GOOD}, {.bytes = answers[i]});
        assert_int_equal(fixture.client->ops->list(fixture.client,
                                                   cr_clock_mono_ns() + 10 * CR_NS_PER_S, on_list,
                                                   &listed, NULL),
                         0);
        while (!atomic_load(&listed.is_there))
            (void)poll(NULL, 0, 1);
        assert_string_equal(listed.first, "*********************");
        model_peer_stop(&fixture);
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
        struct model_peer fixture;

        line.after = PEER_HOLD;
        MODEL_PEER_PLAY(&fixture, 20000, line, line);
        assert_int_equal(fixture.caller.end, AGT_MODEL_UNAVAILABLE);
        assert_int_equal(fixture.caller.calls, 2);
        assert_true(fixture.caller.elapsed_ms < 15000);
        model_peer_stop(&fixture);
    }
}

static void too_much_is_not_read(void **state)
{
    enum {
        LINE = 10 << 20
    };

    CR_AUTO_FREE char *line = malloc(sizeof(HEAD) + LINE);
    CR_AUTO_FREE char *head = malloc(100000);
    struct model_peer fixture;

    (void)state;
    assert_non_null(line);
    memcpy(line, HEAD, sizeof(HEAD) - 1);
    memset(line + sizeof(HEAD) - 1, 'x', LINE);
    MODEL_PEER_PLAY(&fixture, 15000, {.bytes = line, .size = sizeof(HEAD) - 1 + LINE},
                    {.bytes = GOOD});
    assert_int_equal(fixture.caller.end, AGT_MODEL_BAD_ANSWER);
    assert_int_equal(fixture.caller.calls, 1);
    model_peer_stop(&fixture);

    /* A head of 90,000 bytes. */
    assert_non_null(head);
    (void)snprintf(head, 100, "HTTP/1.1 200 OK\r\n");
    for (size_t i = 0; i < 900; i++)
        (void)snprintf(head + 17 + i * 100, 101, "X-%04zu: %090d\r\n", i, 0);
    MODEL_PEER_PLAY(&fixture, 15000, {.bytes = head}, {.bytes = GOOD});
    assert_int_equal(fixture.caller.end, AGT_MODEL_BAD_ANSWER);
    model_peer_stop(&fixture);
}

static void a_stream_without_end_is_stopped(void **state)
{
    static char comments[] = ": 0123456789012345678901234567890123456789012345678901234567890\n";
    CR_AUTO_FREE char *block = malloc(64 * 1024 + sizeof(HEAD));
    struct model_peer fixture;

    (void)state;
    assert_non_null(block);
    for (size_t i = 0; i < 1024; i++)
        memcpy(block + i * 64, comments, 64);
    /* The head as a comment would spoil the stream, so it goes with the first bytes of it. */
    memcpy(block, HEAD, sizeof(HEAD) - 1);
    MODEL_PEER_PLAY(&fixture, 15000, {.bytes = block, .size = 64 * 1024, .repeat = 1024},
                    {.bytes = GOOD});
    assert_int_equal(fixture.caller.end, AGT_MODEL_BAD_ANSWER);
    assert_non_null(strstr(fixture.caller.message, "more than is read"));
    model_peer_stop(&fixture);
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
        struct model_peer fixture;

        MODEL_PEER_PLAY(&fixture, 5000, {.bytes = answers[i]}, {.bytes = answers[i]});
        assert_true(fixture.caller.end == AGT_MODEL_BAD_ANSWER ||
                    fixture.caller.end == AGT_MODEL_UNAVAILABLE);
        assert_true(fixture.caller.calls <= 2);
        assert_string_not_equal(fixture.caller.message, "");
        model_peer_stop(&fixture);
    }
}

static void nobody_there_is_told(void **state)
{
    struct model_peer fixture;
    struct agt_model_call *call;

    (void)state;
    model_peer_start(&fixture, NULL, 0);
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
    struct model_peer fixture;
    struct agt_model_call *call;
    uint32_t retries = 0;

    (void)state;
    model_peer_start(&fixture,
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
    model_peer_stop(&fixture);
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
        cmocka_unit_test(a_redirect_is_not_followed),
        cmocka_unit_test(an_echoed_key_is_blotted_out),
        cmocka_unit_test(an_echoed_key_that_is_cut_is_blotted_out),
        cmocka_unit_test(an_echoed_key_is_blotted_out_of_a_list),
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
