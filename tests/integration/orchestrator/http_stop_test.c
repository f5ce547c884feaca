/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/buf.h"
#include "common/clock.h"
#include "common/err.h"
#include "tests/harness/alloc.h"
#include "tests/harness/test.h"
#include "tests/integration/orchestrator/http_client.h"
#include "tests/integration/orchestrator/http_fakes.h"
#include "tests/integration/orchestrator/http_fixture.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <arpa/inet.h>
#include <sys/socket.h>

static struct http_fixture fixture;

static int start(void **state)
{
    (void)state;
    http_fixture_start(&fixture, NULL);
    return 0;
}

static int open_run(const char *path)
{
    int fd = client_connect(fixture.port);
    char request[256];

    (void)snprintf(request, sizeof(request),
                   "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                   "Content-Length: 15\r\n\r\n{\"task\":\"hang\"}",
                   path);
    client_send_str(fd, request);
    return fd;
}

static bool two_watches_live(void *user)
{
    (void)user;
    return fake_counts().watches_live == 2;
}

static void *finish_runs(void *user)
{
    fake_finish(user);
    return NULL;
}

static void requests_in_flight_end_by_themselves_within_the_grace(void **state)
{
    CR_AUTO_CLOSE int stream = open_run("/api/v1/stream");
    CR_AUTO_CLOSE int generate = open_run("/api/v1/generate");
    CR_AUTO_BUF struct cr_buf answer;
    pthread_t thread;

    (void)state;
    cr_buf_init(&answer, 65536);
    fixture.fds_before += 2; /* stream and generate are closed behind the server */
    assert_true(eventually(two_watches_live, NULL));
    agt_http_quiesce(fixture.http);
    assert_int_equal(pthread_create(&thread, NULL, finish_runs, fixture.engine), 0);
    assert_true(agt_http_stop(fixture.http, 5000));
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_true(http_fixture_stop(&fixture, 0));
    client_read_until(stream, &answer, "event: result\n");
    cr_buf_clear(&answer);
    client_read_until(generate, &answer, "HTTP/1.1 200 ");
}

static void what_outlasts_the_grace_is_cancelled_and_told(void **state)
{
    uint32_t before = fake_counts().runs_cancelled;
    CR_AUTO_CLOSE int stream = open_run("/api/v1/stream");
    CR_AUTO_CLOSE int generate = open_run("/api/v1/generate");
    CR_AUTO_BUF struct cr_buf answer;
    int64_t began_ns;

    (void)state;
    cr_buf_init(&answer, 65536);
    fixture.fds_before += 2; /* stream and generate are closed behind the server */
    assert_true(eventually(two_watches_live, NULL));
    began_ns = cr_clock_mono_ns();
    assert_false(http_fixture_stop(&fixture, 100));
    assert_true(cr_clock_mono_ns() - began_ns < 30 * CR_NS_PER_S);
    assert_int_equal(fake_counts().runs_cancelled, before + 2);
    client_read_until(stream, &answer, "event: shutdown\n");
    cr_buf_clear(&answer);
    client_read_until(generate, &answer, "HTTP/1.1 503 ");
    client_read_until(generate, &answer, "shutting down");
}

static bool is_refused(void *user)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const struct sockaddr_in address = {
        .sin_family = AF_INET,
        .sin_port = htons(fixture.port),
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
    };
    int r = connect(fd, (const struct sockaddr *)&address, sizeof(address));
    int error = errno;

    (void)user;
    (void)close(fd);
    return r < 0 && error == ECONNREFUSED;
}

static void a_quiescent_server_takes_no_connection_and_no_work(void **state)
{
    CR_AUTO_CLOSE int fd = client_connect(fixture.port);
    CR_AUTO_BUF struct cr_buf answer;

    (void)state;
    cr_buf_init(&answer, 65536);
    fixture.fds_before++; /* fd is closed behind the server */
    client_send_str(fd, "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n");
    client_read_until(fd, &answer, "{\"status\":\"ok\"}");
    agt_http_quiesce(fixture.http);
    assert_true(eventually(is_refused, NULL));
    cr_buf_clear(&answer);
    client_send_str(fd, "GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n");
    client_read_until(fd, &answer, "HTTP/1.1 503 ");
    client_read_until(fd, &answer, "shutting down");
    cr_buf_clear(&answer);
    client_send_str(fd, "POST /api/v1/generate HTTP/1.1\r\nHost: localhost\r\n"
                        "Content-Type: application/json\r\nContent-Length: 16\r\n\r\n"
                        "{\"task\":\"quick\"}");
    client_read_until(fd, &answer, "HTTP/1.1 503 ");
    client_read_until(fd, &answer, "shutting down");
    assert_true(http_fixture_stop(&fixture, 1000));
}

static void a_server_that_never_started_can_be_freed(void **state)
{
    const struct agt_http_options options = {.address = "127.0.0.1:0"};
    int before = test_count_fds();
    struct agt_http *http = NULL;

    (void)state;
    assert_int_equal(agt_http_new(&options, &http, NULL), 0);
    agt_http_quiesce(http);
    assert_true(agt_http_stop(http, 0));
    assert_null(agt_http_free(http));
    assert_null(agt_http_free(NULL));
    assert_int_equal(test_count_fds(), before);
}

static void a_server_that_cannot_be_made_leaves_nothing_behind(void **state)
{
    const struct agt_http_options options = {.address = "127.0.0.1:0",
                                             .allowed_hosts = "a.example"};
    int before = test_count_fds();
    struct agt_http *http = NULL;
    int n = 0;
    int failures = 0;

    (void)state;
    for (; !http && n < 100; n++) {
        int r;

        test_fail_alloc(n);
        r = agt_http_new(&options, &http, NULL);
        failures += test_stop_alloc();
        assert_true((r == 0) == (http != NULL));
        if (r < 0)
            assert_int_equal(test_count_fds(), before);
    }
    assert_int_equal(failures, n - 1);
    assert_null(agt_http_free(http));
    assert_int_equal(test_count_fds(), before);
}

static void a_taken_port_is_named(void **state)
{
    char address[32];
    struct agt_http_options options = {.address = address};
    struct agt_http *http = NULL;
    struct cr_err err = CR_ERR_INIT;
    int before = test_count_fds();

    (void)state;
    (void)snprintf(address, sizeof(address), "127.0.0.1:%d", fixture.port);
    assert_int_equal(agt_http_new(&options, &http, &err), -EADDRINUSE);
    assert_null(http);
    assert_non_null(strstr(err.text, "serve http on 127.0.0.1:"));
    assert_int_equal(test_count_fds(), before);
    assert_true(http_fixture_stop(&fixture, 1000));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(requests_in_flight_end_by_themselves_within_the_grace, start),
        cmocka_unit_test_setup(what_outlasts_the_grace_is_cancelled_and_told, start),
        cmocka_unit_test_setup(a_quiescent_server_takes_no_connection_and_no_work, start),
        cmocka_unit_test(a_server_that_never_started_can_be_freed),
        cmocka_unit_test(a_server_that_cannot_be_made_leaves_nothing_behind),
        cmocka_unit_test_setup(a_taken_port_is_named, start),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
