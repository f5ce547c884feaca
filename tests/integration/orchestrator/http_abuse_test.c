/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/buf.h"
#include "common/clock.h"
#include "rpc/tokens.h"
#include "tests/harness/test.h"
#include "tests/integration/orchestrator/http_client.h"
#include "tests/integration/orchestrator/http_fixture.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sys/resource.h>
#include <sys/socket.h>

#define LIMIT_MS 600
#define BODY_MEMORY (600U << 10)
/* What a busy machine may add. */
#define SLACK_MS 30000
#define TOKEN "t0ken-t0ken-t0ken"

static struct http_fixture fixture;
static struct rpc_tokens *tokens;

static int start_with_limit(uint32_t limit_ms)
{
    const struct agt_http_options options = {
        .header_timeout_ms = limit_ms,
        .body_timeout_ms = limit_ms,
        .write_timeout_ms = limit_ms,
        .max_connections = 8,
        .max_body_memory = BODY_MEMORY,
        .tokens = tokens,
        .allowed_hosts = "crisol.example",
    };

    assert_int_equal(rpc_tokens_load(tokens, TOKEN, strlen(TOKEN), NULL), 0);
    http_fixture_start(&fixture, &options);
    return 0;
}

/* With the usual deadlines: a client that a busy machine holds up is not taken for a slow one. */
static int start(void **state)
{
    (void)state;
    return start_with_limit(0);
}

static int start_hasty(void **state)
{
    (void)state;
    return start_with_limit(LIMIT_MS);
}

static int stop(void **state)
{
    (void)state;
    (void)http_fixture_stop(&fixture, 1000);
    return 0;
}

#define AUTHORIZATION "Authorization: Bearer " TOKEN "\r\n"
#define GET_LIVEZ "GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"

static bool is_served(void *user)
{
    CR_AUTO_BUF struct cr_buf answer;

    (void)user;
    cr_buf_init(&answer, 65536);
    return client_request(fixture.port, GET_LIVEZ, &answer) == 200;
}

/* After every abuse the server must still serve. Not always at once: connections that were closed
 * while they waited to be accepted are counted, and fill the cap, until they are seen to be gone.
 */
static void assert_serves(void)
{
    assert_true(eventually(is_served, NULL));
}

static void malformed_requests_are_refused_and_closed(void **state)
{
    static const struct {
        const char *request;
        int status;
    } cases[] = {
        {"GET /livez HTTP/1.1\r\nHost: localhost\r\nHost: evil.com\r\n\r\n", 400},
        {"GET /livez HTTP/1.1\r\nHost: localhost\r\nhost: localhost\r\n\r\n", 400},
        {"GET /livez HTTP/1.1\r\n\r\n", 400},
        {"GET /livez HTTP/1.0\r\n\r\n", 400},
        {"GET /livez HTTP/1.1\r\nHost: evil.com\r\n\r\n", 421},
        {"GET /livez HTTP/1.1\r\nHost: crisol.example:80\r\nConnection: close\r\n\r\n", 200},
        {"GET http://evil.com/livez HTTP/1.1\r\nHost: localhost\r\n\r\n", 400},
        {"GET /livez%00x HTTP/1.1\r\nHost: localhost\r\n\r\n", 400},
        {"GET /api%2fv1/health HTTP/1.1\r\nHost: localhost\r\n\r\n", 400},
        {"GET /../livez HTTP/1.1\r\nHost: localhost\r\n\r\n", 404},
        {"POST /api/v1/generate HTTP/1.1\r\nHost: localhost\r\n" AUTHORIZATION
         "Content-Type: application/json\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
         400},
        {"POST /api/v1/generate HTTP/1.1\r\nHost: localhost\r\n" AUTHORIZATION
         "Content-Type: application/json\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n"
         "0\r\n\r\n",
         400},
        {"POST /api/v1/generate HTTP/1.1\r\nHost: localhost\r\n" AUTHORIZATION
         "Content-Type: application/json\r\nTransfer-Encoding: xchunked\r\n\r\n",
         400},
        {"POST /api/v1/generate HTTP/1.1\r\nHost: localhost\r\n" AUTHORIZATION
         "Content-Type: application/json\r\nContent-Length: +5\r\n\r\n{}",
         400},
        {"POST /api/v1/generate HTTP/1.1\r\nHost: localhost\r\n" AUTHORIZATION
         "Content-Type: application/json\r\nContent-Length: 99999999999999999999999\r\n\r\n{}",
         413},
        {"GET /livez HTTP/1.1\r\nHost: localhost\r\nContent-Length: x\r\n\r\n", 400},
        {"POST /api/v1/generate HTTP/1.1\r\nHost: localhost\r\n" AUTHORIZATION
         "Content-Type: application/json\r\n\r\n",
         411},
        {"POST /api/v1/generate HTTP/1.1\r\nHost: localhost\r\n" AUTHORIZATION
         "Content-Type: text/plain\r\nContent-Length: 2\r\n\r\n{}",
         415},
        {"POST /api/v1/generate HTTP/1.1\r\nHost: localhost\r\n" AUTHORIZATION
         "Content-Type: application/json\r\nContent-Length: 1048577\r\n\r\n",
         413},
        {"POST /api/v1/generate HTTP/1.1\r\nHost: localhost\r\n"
         "Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}",
         401},
        {"BREW /livez HTTP/1.1\r\nHost: localhost\r\n\r\n", 405},
        {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505},
    };

    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(cases); i++) {
        CR_AUTO_BUF struct cr_buf answer;

        cr_buf_init(&answer, 65536);
        if (client_request(fixture.port, cases[i].request, &answer) != cases[i].status)
            fail_msg("%s\nis not answered %d but: %s", cases[i].request, cases[i].status,
                     cr_buf_str(&answer));
        if (strstr(cr_buf_str(&answer) + 1, "HTTP/1.1 "))
            fail_msg("%s\nis answered twice: %s", cases[i].request, cr_buf_str(&answer));
    }
    assert_serves();
}

static void oversized_headers_are_refused(void **state)
{
    CR_AUTO_BUF struct cr_buf request;
    CR_AUTO_BUF struct cr_buf answer;
    int status;

    (void)state;
    cr_buf_init(&request, 1 << 20);
    cr_buf_init(&answer, 65536);
    (void)cr_buf_add_str(&request, "GET /livez HTTP/1.1\r\nHost: localhost\r\n");
    for (int i = 0; i < 2000; i++)
        (void)cr_buf_printf(&request, "X-Filler-%d: %d\r\n", i, i);
    (void)cr_buf_add_str(&request, "\r\n");
    status = client_request(fixture.port, cr_buf_str(&request), &answer);
    /* 0: the connection was reset while the rest was still being sent. */
    assert_true(status == 431 || status == 413 || status == 0);
    assert_serves();
}

/* One byte every 50 ms; how long the server bore it, in ms since `began_ns`. */
static int64_t drip(int fd, int64_t began_ns, const char *text)
{
    struct pollfd closed = {.fd = fd, .events = POLLIN};

    for (size_t i = 0; cr_clock_mono_ns() - began_ns < (LIMIT_MS + SLACK_MS) * CR_NS_PER_MS; i++) {
        client_send(fd, i < strlen(text) ? &text[i] : "x", 1);
        if (poll(&closed, 1, 50) > 0)
            break;
    }
    return (cr_clock_mono_ns() - began_ns) / CR_NS_PER_MS;
}

/* The clocks of these two begin before the server's: however late we run, it seems no earlier. */
static void slow_headers_are_closed_at_their_deadline(void **state)
{
    int64_t began_ns = cr_clock_mono_ns();
    CR_AUTO_CLOSE int fd = client_connect(fixture.port);
    int64_t took_ms = drip(fd, began_ns, "GET /livez HTTP/1.1\r\nHost: localhost\r\nX-A: ");

    (void)state;
    assert_true(took_ms >= LIMIT_MS - 50 && took_ms < LIMIT_MS + SLACK_MS);
    assert_serves();
}

static void slow_bodies_are_closed_at_their_deadline(void **state)
{
    int64_t began_ns = cr_clock_mono_ns();
    CR_AUTO_CLOSE int fd = client_connect(fixture.port);
    CR_AUTO_BUF struct cr_buf answer = {0};
    int64_t took_ms;

    (void)state;
    cr_buf_init(&answer, 65536);
    client_send_str(fd, "POST /api/v1/generate HTTP/1.1\r\nHost: localhost\r\n" AUTHORIZATION
                        "Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n");
    took_ms = drip(fd, began_ns, "{\"task\":\"");
    assert_true(took_ms >= LIMIT_MS - 50 && took_ms < LIMIT_MS + SLACK_MS);
    client_read_until(fd, &answer, "HTTP/1.1 408 ");
    client_read_until(fd, &answer, "took too long");
    assert_serves();
}

static void silent_and_idle_connections_are_closed(void **state)
{
    CR_AUTO_CLOSE int idle = client_connect(fixture.port);
    CR_AUTO_CLOSE int silent = -1;
    CR_AUTO_BUF struct cr_buf answer = {0};

    (void)state;
    client_send_str(idle, "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n");
    silent = client_connect(fixture.port);
    cr_buf_init(&answer, 65536);
    client_read_until(idle, &answer, "{\"status\":\"ok\"}");
    assert_true(client_read_to_end(silent, &answer, LIMIT_MS + SLACK_MS));
    assert_true(client_read_to_end(idle, &answer, LIMIT_MS + SLACK_MS));
}

static bool nobody_is_connected(void *user)
{
    (void)user;
    return agt_http_connections(fixture.http) == 0;
}

static void readers_that_take_nothing_are_closed(void **state)
{
    CR_AUTO_CLOSE int fd = client_connect(fixture.port);
    const int small = 4096;

    (void)state;
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
    client_send_str(fd, "POST /api/v1/stream HTTP/1.1\r\nHost: localhost\r\n" AUTHORIZATION
                        "Content-Type: application/json\r\nContent-Length: 15\r\n\r\n"
                        "{\"task\":\"bulk\"}");
    assert_true(eventually(nobody_is_connected, NULL));
    assert_serves();
}

static void cut_bodies_leave_nothing_behind(void **state)
{
    int fd = client_connect(fixture.port);

    (void)state;
    client_send_str(fd, "POST /api/v1/generate HTTP/1.1\r\nHost: localhost\r\n" AUTHORIZATION
                        "Content-Type: application/json\r\nContent-Length: 100\r\n\r\n"
                        "{\"task\":\"qui");
    assert_int_equal(close(fd), 0);
    assert_true(eventually(nobody_is_connected, NULL));
    assert_serves();
}

static void chunked_bodies_beyond_the_cap_are_refused(void **state)
{
    CR_AUTO_CLOSE int fd = client_connect(fixture.port);
    CR_AUTO_BUF struct cr_buf chunk;
    CR_AUTO_BUF struct cr_buf answer;

    (void)state;
    cr_buf_init(&answer, 65536);
    cr_buf_init(&chunk, 1 << 20);
    client_send_str(fd, "POST /api/v1/generate HTTP/1.1\r\nHost: localhost\r\n" AUTHORIZATION
                        "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n");
    (void)cr_buf_add_str(&chunk, "10000\r\n");
    for (int i = 0; i < 65536; i++)
        (void)cr_buf_add_char(&chunk, ' ');
    (void)cr_buf_add_str(&chunk, "\r\n");
    for (int i = 0; i < 17; i++)
        client_send(fd, chunk.data, chunk.size);
    client_send_str(fd, "0\r\n\r\n");
    client_read_until(fd, &answer, "HTTP/1.1 413 ");
    client_read_until(fd, &answer, "larger than the 1048576 bytes");
    assert_serves();
}

/* Endless: cut off at twice the cap. */
static void endless_bodies_are_cut_off(void **state)
{
    static char chunk[65536 + 9];
    CR_AUTO_CLOSE int fd = client_connect(fixture.port);
    struct pollfd closed = {.fd = fd, .events = POLLIN};
    size_t sent = 0;

    (void)state;
    memset(chunk, ' ', sizeof(chunk));
    memcpy(chunk, "10000\r\n", 7);
    memcpy(chunk + sizeof(chunk) - 2, "\r\n", 2);
    client_send_str(fd, "POST /api/v1/generate HTTP/1.1\r\nHost: localhost\r\n" AUTHORIZATION
                        "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n");
    while (sent < (size_t)64 << 20 && poll(&closed, 1, 0) == 0) {
        client_send(fd, chunk, sizeof(chunk));
        sent += sizeof(chunk);
    }
    assert_true(sent < (size_t)64 << 20);
    assert_serves();
}

static int post_spaces(size_t size)
{
    CR_AUTO_CLOSE int fd = client_connect(fixture.port);
    CR_AUTO_BUF struct cr_buf request;
    CR_AUTO_BUF struct cr_buf answer;

    cr_buf_init(&request, (size_t)2 << 20);
    cr_buf_init(&answer, 65536);
    (void)cr_buf_printf(&request,
                        "POST /api/v1/generate HTTP/1.1\r\nHost: localhost\r\n" AUTHORIZATION
                        "Content-Type: application/json\r\nConnection: close\r\n"
                        "Content-Length: %zu\r\n\r\n",
                        size);
    for (size_t i = 0; i < size; i++)
        (void)cr_buf_add_char(&request, ' ');
    client_send(fd, request.data, request.size);
    (void)client_read_to_end(fd, &answer, LIMIT_MS + SLACK_MS);
    return answer.size > 12 ? (int)strtol(cr_buf_str(&answer) + 9, NULL, 10) : 0;
}

/* Bodies that the route allows still share a cap on memory, which is given back. */
static void bodies_beyond_the_memory_cap_are_refused(void **state)
{
    (void)state;
    for (int i = 0; i < 5; i++) {
        assert_int_equal(post_spaces(BODY_MEMORY - 1000), 422);
        assert_int_equal(post_spaces(BODY_MEMORY + 1000), 503);
    }
}

static void connections_beyond_the_cap_get_503(void **state)
{
    enum {
        CLIENTS = 8
    };

    int fds[CLIENTS];
    CR_AUTO_BUF struct cr_buf answer;

    (void)state;
    cr_buf_init(&answer, 65536);
    for (int i = 0; i < CLIENTS; i++) {
        fds[i] = client_connect(fixture.port);
        client_send_str(fds[i], "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n");
        cr_buf_clear(&answer);
        client_read_until(fds[i], &answer, "{\"status\":\"ok\"}");
    }
    cr_buf_clear(&answer);
    assert_int_equal(client_request(fixture.port, GET_LIVEZ, &answer), 503);
    assert_non_null(strstr(cr_buf_str(&answer), "Retry-After: "));
    for (int i = 0; i < CLIENTS; i++)
        assert_int_equal(close(fds[i]), 0);
    assert_true(eventually(nobody_is_connected, NULL));
    assert_serves();
}

/* Takes every fd that is left under a limit lowered to little more than what is open. */
static size_t take_all_fds(int *fds, size_t max, struct rlimit *ret_before)
{
    struct rlimit low;
    size_t count = 0;
    int highest = dup(0);

    assert_int_equal(getrlimit(RLIMIT_NOFILE, ret_before), 0);
    low = *ret_before;
    low.rlim_cur = (rlim_t)highest + 8;
    assert_int_equal(close(highest), 0);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
    for (; count < max; count++) {
        fds[count] = dup(0);
        if (fds[count] < 0)
            break;
    }
    assert_true(count < max);
    return count;
}

/* Who knocks while no fd is left is served once there is one, though nobody else has left. */
static void a_lack_of_fds_passes(void **state)
{
    CR_AUTO_CLOSE int stream = client_connect(fixture.port);
    CR_AUTO_CLOSE int late = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CR_AUTO_BUF struct cr_buf answer = {0};
    struct pollfd ready = {.fd = late, .events = POLLIN};
    struct rlimit before;
    int fds[256];
    size_t count;

    (void)state;
    cr_buf_init(&answer, 65536);
    client_send_str(stream, "POST /api/v1/stream HTTP/1.1\r\nHost: localhost\r\n" AUTHORIZATION
                            "Content-Type: application/json\r\nContent-Length: 15\r\n\r\n"
                            "{\"task\":\"hang\"}");
    client_read_until(stream, &answer, "id: 1\n");
    count = take_all_fds(fds, CR_ARRAY_SIZE(fds), &before);
    client_connect_fd(late, fixture.port);
    client_send_str(late, GET_LIVEZ);
    assert_int_equal(poll(&ready, 1, 300), 0);
    while (count > 0)
        assert_int_equal(close(fds[--count]), 0);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    cr_buf_clear(&answer);
    client_read_until(late, &answer, "{\"status\":\"ok\"}");
}

static void hostile_bodies_are_refused(void **state)
{
    static const char *const bodies[] = {
        "{\"task\":\"a\",\"task\":\"b\"}",
        "{\"task\":\"\xff\xfe\"}",
        "{\"task\":\"\\ud800\"}",
        "{\"task\":\"a\\u0000b\"}",
        "{\"__proto__\":{\"task\":\"a\"}}",
        "{\"task\":\"a\"}}",
        "NaN",
    };
    CR_AUTO_BUF struct cr_buf deep;
    CR_AUTO_BUF struct cr_buf answer;

    (void)state;
    cr_buf_init(&answer, 65536);
    for (size_t i = 0; i < CR_ARRAY_SIZE(bodies); i++) {
        assert_int_equal(
            client_post(fixture.port, "/api/v1/generate", bodies[i], AUTHORIZATION, &answer), 422);
    }
    cr_buf_init(&deep, 65536);
    (void)cr_buf_add_str(&deep, "{\"task\":");
    for (int i = 0; i < 50000; i++)
        (void)cr_buf_add_char(&deep, '{');
    assert_int_equal(
        client_post(fixture.port, "/api/v1/execute", cr_buf_str(&deep), AUTHORIZATION, &answer),
        422);
    assert_serves();
}

static void random_bytes_harm_nothing(void **state)
{
    uint64_t seed = 88172645463325252U;

    (void)state;
    for (int round = 0; round < 200; round++) {
        char noise[256];
        int fd = client_connect(fixture.port);

        for (size_t i = 0; i < sizeof(noise); i++) {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            noise[i] = (char)seed;
        }
        client_send(fd, noise, sizeof(noise));
        client_send_str(fd, "\r\n\r\n");
        assert_int_equal(close(fd), 0);
    }
    assert_true(eventually(nobody_is_connected, NULL));
    assert_serves();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(malformed_requests_are_refused_and_closed, start, stop),
        cmocka_unit_test_setup_teardown(oversized_headers_are_refused, start, stop),
        cmocka_unit_test_setup_teardown(slow_headers_are_closed_at_their_deadline, start_hasty,
                                        stop),
        cmocka_unit_test_setup_teardown(slow_bodies_are_closed_at_their_deadline, start_hasty,
                                        stop),
        cmocka_unit_test_setup_teardown(silent_and_idle_connections_are_closed, start_hasty, stop),
        cmocka_unit_test_setup_teardown(readers_that_take_nothing_are_closed, start_hasty, stop),
        cmocka_unit_test_setup_teardown(cut_bodies_leave_nothing_behind, start, stop),
        cmocka_unit_test_setup_teardown(chunked_bodies_beyond_the_cap_are_refused, start, stop),
        cmocka_unit_test_setup_teardown(endless_bodies_are_cut_off, start, stop),
        cmocka_unit_test_setup_teardown(bodies_beyond_the_memory_cap_are_refused, start, stop),
        cmocka_unit_test_setup_teardown(connections_beyond_the_cap_get_503, start, stop),
        cmocka_unit_test_setup_teardown(a_lack_of_fds_passes, start, stop),
        cmocka_unit_test_setup_teardown(hostile_bodies_are_refused, start, stop),
        cmocka_unit_test_setup_teardown(random_bytes_harm_nothing, start, stop),
    };

    int failures;

    tokens = rpc_tokens_new();
    failures = cmocka_run_group_tests(tests, NULL, NULL);
    tokens = rpc_tokens_free(tokens);
    return failures;
}
