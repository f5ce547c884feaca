/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/buf.h"
#include "common/clock.h"
#include "tests/harness/test.h"
#include "tests/integration/orchestrator/http_client.h"
#include "tests/integration/orchestrator/http_fakes.h"
#include "tests/integration/orchestrator/http_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cjson/cJSON.h>

#include <sys/socket.h>

#define WATCHERS 100

static struct http_fixture fixture;

static int start(void **state)
{
    const struct agt_http_options options = {.heartbeat_ms = 200};

    (void)state;
    http_fixture_start(&fixture, &options);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    (void)http_fixture_stop(&fixture, 1000);
    return 0;
}

static void send_post(int fd, const char *path, const char *body, const char *more_headers)
{
    char request[1024];

    (void)snprintf(request, sizeof(request),
                   "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                   "Content-Length: %zu\r\n%s\r\n%s",
                   path, strlen(body), more_headers, body);
    client_send_str(fd, request);
}

static int open_stream(const char *task)
{
    char body[128];
    int fd = client_connect(fixture.port);

    (void)snprintf(body, sizeof(body), "{\"task\":\"%s\"}", task);
    send_post(fd, "/api/v1/stream", body, "");
    return fd;
}

/* Takes the chunk sizes out, in place. HTTP/1.1 answers of unknown length are always chunked. */
static char *unchunk(const struct cr_buf *answer)
{
    const char *at = client_body(answer);
    char *text = calloc(1, answer->size + 1);
    char *to = text;

    assert_non_null(text);
    for (;;) {
        char *data;
        unsigned long size = strtoul(at, &data, 16);

        if (size == 0 || strncmp(data, "\r\n", 2) != 0)
            return text;
        assert_true((size_t)(data + 2 - cr_buf_str(answer)) + size <= answer->size);
        memcpy(to, data + 2, size);
        to += size;
        at = data + 2 + size + 2;
    }
}

static void a_stream_is_complete_gapless_and_ends_with_the_result(void **state)
{
    CR_AUTO_BUF struct cr_buf answer;
    CR_AUTO_FREE char *text = NULL;
    cJSON *result;

    (void)state;
    cr_buf_init(&answer, 1 << 20);
    assert_int_equal(
        client_post(fixture.port, "/api/v1/stream", "{\"task\":\"quick\"}", "", &answer), 200);
    assert_non_null(strstr(cr_buf_str(&answer), "\r\nContent-Type: text/event-stream\r\n"));
    assert_non_null(strstr(cr_buf_str(&answer), "\r\nX-Accel-Buffering: no\r\n"));
    assert_non_null(strstr(cr_buf_str(&answer), "\r\nCache-Control: no-cache"));
    assert_string_equal(cr_buf_str(&answer) + answer.size - 5, "0\r\n\r\n");
    text = unchunk(&answer);
    assert_int_equal(strncmp(text, "retry: 2000\n\nid: 1\nevent: node_started\ndata: {", 46), 0);
    assert_non_null(strstr(text, "\n\nevent: model_delta\ndata: {"));
    assert_non_null(strstr(text, "\n\nid: 2\nevent: node_started\n"));
    assert_non_null(strstr(text, "\n\nid: 3\nevent: result\ndata: {\"task\":\"the task\","));
    result = cJSON_Parse(strstr(text, "event: result\ndata: ") + 20);
    assert_string_equal(cJSON_GetStringValue(cJSON_GetObjectItem(result, "status")), "SUCCESS");
    cJSON_Delete(result);
}

static void http_1_0_streams_end_with_the_connection(void **state)
{
    CR_AUTO_BUF struct cr_buf answer;

    (void)state;
    cr_buf_init(&answer, 1 << 20);
    assert_int_equal(client_request(fixture.port,
                                    "POST /api/v1/stream HTTP/1.0\r\nHost: localhost\r\n"
                                    "Content-Type: application/json\r\nContent-Length: 16\r\n\r\n"
                                    "{\"task\":\"quick\"}",
                                    &answer),
                     200);
    assert_int_equal(strncmp(client_body(&answer), "retry: 2000\n\n", 13), 0);
    assert_non_null(strstr(cr_buf_str(&answer), "event: result\n"));
}

static bool nothing_runs(void *user)
{
    struct fake_counts counts = fake_counts();

    (void)user;
    return counts.watches_live == 0;
}

static void events_arrive_as_they_happen(void **state)
{
    CR_AUTO_CLOSE int fd = open_stream("hang");
    CR_AUTO_BUF struct cr_buf answer;

    (void)state;
    cr_buf_init(&answer, 1 << 20);
    client_read_until(fd, &answer, "id: 1\n");
    fake_push(fixture.engine);
    client_read_until(fd, &answer, "id: 2\n");
    fake_push(fixture.engine);
    client_read_until(fd, &answer, "id: 3\n");
    fake_finish(fixture.engine);
    client_read_until(fd, &answer, "event: result\n");
    client_read_until(fd, &answer, "0\r\n\r\n");
    assert_true(eventually(nothing_runs, NULL));
}

static void silent_streams_are_kept_alive(void **state)
{
    CR_AUTO_CLOSE int fd = open_stream("hang");
    CR_AUTO_BUF struct cr_buf answer;

    (void)state;
    cr_buf_init(&answer, 1 << 20);
    client_read_until(fd, &answer, ": heartbeat\n\n");
    cr_buf_clear(&answer);
    client_read_until(fd, &answer, ": heartbeat\n\n");
}

static bool one_run_was_cancelled(void *user)
{
    struct fake_counts counts = fake_counts();
    const uint32_t *before = user;

    return counts.runs_cancelled == *before + 1 && counts.watches_live == 0;
}

static void a_client_that_leaves_a_stream_cancels_its_run(void **state)
{
    uint32_t before = fake_counts().runs_cancelled;
    int fd = open_stream("hang");
    CR_AUTO_BUF struct cr_buf answer;

    (void)state;
    cr_buf_init(&answer, 1 << 20);
    client_read_until(fd, &answer, "id: 1\n");
    assert_int_equal(close(fd), 0);
    assert_true(eventually(one_run_was_cancelled, &before));
}

static bool one_watch_lives(void *user)
{
    (void)user;
    return fake_counts().watches_live == 1;
}

static void a_client_that_leaves_generate_cancels_its_run(void **state)
{
    uint32_t before = fake_counts().runs_cancelled;
    int fd = client_connect(fixture.port);

    (void)state;
    send_post(fd, "/api/v1/generate", "{\"task\":\"hang\"}", "");
    assert_true(eventually(one_watch_lives, NULL));
    assert_int_equal(close(fd), 0);
    assert_true(eventually(one_run_was_cancelled, &before));
}

static bool one_execution_lives(void *user)
{
    (void)user;
    return fake_counts().executions_live == 1;
}

static bool one_execution_was_cancelled(void *user)
{
    struct fake_counts counts = fake_counts();
    const uint32_t *before = user;

    return counts.executions_cancelled == *before + 1 && counts.executions_live == 0;
}

static void leave_execution(const char *more_headers)
{
    uint32_t before = fake_counts().executions_cancelled;
    int fd = client_connect(fixture.port);

    send_post(fd, "/api/v1/execute", "{\"runtime\":\"python\",\"code\":\"hang\"}", more_headers);
    assert_true(eventually(one_execution_lives, NULL));
    assert_int_equal(shutdown(fd, SHUT_WR), 0);
    assert_true(eventually(one_execution_was_cancelled, &before));
    assert_int_equal(close(fd), 0);
}

static void a_client_that_leaves_an_execution_cancels_it(void **state)
{
    (void)state;
    leave_execution("");
    leave_execution("Accept: text/event-stream\r\n");
}

static void execute_streams_on_request(void **state)
{
    CR_AUTO_BUF struct cr_buf answer;
    CR_AUTO_FREE char *text = NULL;

    (void)state;
    cr_buf_init(&answer, 1 << 20);
    assert_int_equal(client_post(fixture.port, "/api/v1/execute",
                                 "{\"runtime\":\"python\",\"code\":\"ok\"}",
                                 "Accept: text/event-stream\r\n", &answer),
                     200);
    text = unchunk(&answer);
    assert_non_null(strstr(text, "retry: 2000\n\nevent: started\ndata: {"));
    assert_non_null(strstr(text, "\"stream\":\"STDOUT\",\"offset\":0,\"text\":\"4\\n\"}}\n\n"));
    assert_non_null(strstr(text, "\"stream\":\"STDERR\",\"offset\":0,\"text\":\"warn\\n\"}}\n\n"));
    assert_non_null(strstr(text, "\n\nevent: result\ndata: {"));
}

static void an_execution_that_fails_midway_ends_with_an_error_event(void **state)
{
    CR_AUTO_BUF struct cr_buf answer;

    (void)state;
    cr_buf_init(&answer, 1 << 20);
    assert_int_equal(client_post(fixture.port, "/api/v1/execute",
                                 "{\"runtime\":\"python\",\"code\":\"late\"}",
                                 "Accept: text/event-stream\r\n", &answer),
                     200);
    assert_non_null(strstr(cr_buf_str(&answer), "event: error\ndata: {\"detail\":\"sandboxd went "
                                                "away\",\"code\":\"UNAVAILABLE\"}\n\n"));
    assert_null(strstr(cr_buf_str(&answer), "event: result"));
}

static void a_result_that_cannot_be_kept_is_told_as_an_error(void **state)
{
    CR_AUTO_BUF struct cr_buf answer;

    (void)state;
    cr_buf_init(&answer, 1 << 20);
    assert_int_equal(client_post(fixture.port, "/api/v1/execute",
                                 "{\"runtime\":\"python\",\"code\":\"huge\"}",
                                 "Accept: text/event-stream\r\n", &answer),
                     200);
    assert_null(strstr(cr_buf_str(&answer), "event: result"));
    assert_non_null(strstr(cr_buf_str(&answer), "event: error\ndata: {\"detail\":\"the execution "
                                                "ended without a result that could be kept\""));
}

static bool one_execution_ended(void *user)
{
    const uint32_t *before = user;

    return fake_counts().executions_ended == *before + 1;
}

/* A reader that takes nothing until all was made: memory is bounded, and the hole is told. */
static void a_slow_reader_of_an_execution_gets_a_gap(void **state)
{
    CR_AUTO_CLOSE int fd = client_connect(fixture.port);
    uint32_t before = fake_counts().executions_ended;
    CR_AUTO_BUF struct cr_buf answer;
    CR_AUTO_FREE char *text = NULL;

    (void)state;
    cr_buf_init(&answer, (size_t)64 << 20);
    send_post(fd, "/api/v1/execute", "{\"runtime\":\"python\",\"code\":\"flood\"}",
              "Accept: text/event-stream\r\nConnection: close\r\n");
    assert_true(eventually(one_execution_ended, &before));
    assert_true(client_read_to_end(fd, &answer, 20000));
    assert_true(answer.size < (size_t)14 << 20);
    text = unchunk(&answer);
    assert_non_null(strstr(text, "\n\nevent: gap\ndata: {\"gap\":{\"dropped_bytes\":"));
    assert_non_null(strstr(text, "\n\nevent: result\n"));
}

static void many_watchers_see_every_event(void **state)
{
    int fds[WATCHERS];
    CR_AUTO_BUF struct cr_buf answer;
    int64_t began_ns = cr_clock_mono_ns();

    (void)state;
    cr_buf_init(&answer, 1 << 20);
    for (int i = 0; i < WATCHERS; i++)
        fds[i] = open_stream("hang");
    for (int i = 0; i < WATCHERS; i++) {
        cr_buf_clear(&answer);
        client_read_until(fds[i], &answer, "id: 1\n");
    }
    for (int i = 0; i < 5; i++)
        fake_push(fixture.engine);
    fake_finish(fixture.engine);
    for (int i = 0; i < WATCHERS; i++) {
        cr_buf_clear(&answer);
        for (int seq = 2; seq <= 7; seq++) {
            char id[16];

            (void)snprintf(id, sizeof(id), "id: %d\n", seq);
            client_read_until(fds[i], &answer, id);
        }
        client_read_until(fds[i], &answer, "event: result\n");
        assert_int_equal(close(fds[i]), 0);
    }
    assert_true(eventually(nothing_runs, NULL));
    assert_true(cr_clock_mono_ns() - began_ns < 100 * CR_NS_PER_S);
}

static void a_large_run_reaches_its_reader_whole(void **state)
{
    CR_AUTO_BUF struct cr_buf answer;

    (void)state;
    cr_buf_init(&answer, (size_t)64 << 20);
    assert_int_equal(
        client_post(fixture.port, "/api/v1/stream", "{\"task\":\"bulk\"}", "", &answer), 200);
    assert_true(answer.size > (size_t)400 * 32768);
    assert_non_null(strstr(cr_buf_str(&answer), "event: result\n"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_stream_is_complete_gapless_and_ends_with_the_result,
                                        start, stop),
        cmocka_unit_test_setup_teardown(http_1_0_streams_end_with_the_connection, start, stop),
        cmocka_unit_test_setup_teardown(events_arrive_as_they_happen, start, stop),
        cmocka_unit_test_setup_teardown(silent_streams_are_kept_alive, start, stop),
        cmocka_unit_test_setup_teardown(a_client_that_leaves_a_stream_cancels_its_run, start, stop),
        cmocka_unit_test_setup_teardown(a_client_that_leaves_generate_cancels_its_run, start, stop),
        cmocka_unit_test_setup_teardown(a_client_that_leaves_an_execution_cancels_it, start, stop),
        cmocka_unit_test_setup_teardown(execute_streams_on_request, start, stop),
        cmocka_unit_test_setup_teardown(an_execution_that_fails_midway_ends_with_an_error_event,
                                        start, stop),
        cmocka_unit_test_setup_teardown(a_result_that_cannot_be_kept_is_told_as_an_error, start,
                                        stop),
        cmocka_unit_test_setup_teardown(a_slow_reader_of_an_execution_gets_a_gap, start, stop),
        cmocka_unit_test_setup_teardown(many_watchers_see_every_event, start, stop),
        cmocka_unit_test_setup_teardown(a_large_run_reaches_its_reader_whole, start, stop),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
