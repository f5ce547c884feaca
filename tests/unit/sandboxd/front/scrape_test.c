/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/clock.h"
#include "common/err.h"
#include "common/listen.h"
#include "common/metrics.h"
#include "sandboxd/front/scrape.h"
#include "sandboxd/front/scrape_request.h"
#include "tests/harness/test.h"

#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <arpa/inet.h>
#include <sys/socket.h>

#define WAIT_MS 30000
#define CROWD 40
#define SILENT_NS (5 * CR_NS_PER_S) /* the server's patience with the silent */
#define TRIES 5                     /* a busy machine may take longer than that once */

static void requests_are_told_apart(void **state)
{
    static const struct {
        const char *text;
        enum sbx_scrape_request expected;
    } cases[] = {
        {"", SBX_SCRAPE_INCOMPLETE},
        {"GET /metrics HTTP/1.1\r\n", SBX_SCRAPE_INCOMPLETE},
        {"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n", SBX_SCRAPE_METRICS},
        {"GET /metrics?a=b HTTP/1.0\r\n\r\n", SBX_SCRAPE_METRICS},
        {"HEAD /metrics HTTP/1.1\r\n\r\n", SBX_SCRAPE_METRICS_HEAD},
        {"GET / HTTP/1.1\r\n\r\n", SBX_SCRAPE_NOT_FOUND},
        {"GET /metrics/ HTTP/1.1\r\n\r\n", SBX_SCRAPE_NOT_FOUND},
        {"POST /metrics HTTP/1.1\r\n\r\n", SBX_SCRAPE_NOT_ALLOWED},
        {"GET  /metrics HTTP/1.1\r\n\r\n", SBX_SCRAPE_BAD},
        {"GET /metrics HTTP/2.0\r\n\r\n", SBX_SCRAPE_BAD},
        {"GET /metrics HTTP/1.1 \r\n\r\n", SBX_SCRAPE_BAD},
        {"GET /met\x01rics HTTP/1.1\r\n\r\n", SBX_SCRAPE_BAD},
        {"GET /metrics\r\n\r\n", SBX_SCRAPE_BAD},
        {"\r\n\r\n", SBX_SCRAPE_BAD},
    };

    static char large[SBX_SCRAPE_HEAD_MAX + 1];

    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(cases); i++) {
        if (sbx_scrape_parse(cases[i].text, strlen(cases[i].text)) != cases[i].expected)
            fail_msg("'%s' is not %d", cases[i].text, cases[i].expected);
    }
    memset(large, 'a', sizeof(large));
    assert_int_equal(sbx_scrape_parse(large, sizeof(large)), SBX_SCRAPE_TOO_LARGE);
    assert_int_equal(sbx_scrape_parse(large, SBX_SCRAPE_HEAD_MAX - 1), SBX_SCRAPE_INCOMPLETE);
}

static void write_page(void *user, struct cr_metrics *metrics)
{
    (void)user;
    cr_metrics_family(metrics, "x", "gauge", "X.");
    cr_metrics_count(metrics, NULL, 1);
}

static struct sbx_scrape *open_scrape(uint16_t *ret_port)
{
    struct cr_listen listen = CR_LISTEN_INIT;
    struct sbx_scrape *scrape = NULL;
    struct cr_err err = CR_ERR_INIT;

    assert_int_equal(cr_listen_open("127.0.0.1:0", (uid_t)-1, &listen, &err), 0);
    *ret_port = listen.port;
    assert_int_equal(sbx_scrape_new(listen.fd, write_page, NULL, &scrape, &err), 0);
    return scrape;
}

static int connect_to(uint16_t port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    return fd;
}

/* What comes until the other side hangs up. */
static void read_all(int fd, char *text, size_t size)
{
    size_t used = 0;
    ssize_t n = 1;

    while (n > 0 && used + 1 < size) {
        struct pollfd poll_fd = {.fd = fd, .events = POLLIN};

        assert_int_equal(poll(&poll_fd, 1, WAIT_MS), 1);
        n = read(fd, text + used, size - 1 - used);
        used += n > 0 ? (size_t)n : 0;
    }
    text[used] = '\0';
}

static void ask(uint16_t port, const char *request, char *text, size_t size)
{
    CR_AUTO_CLOSE int fd = connect_to(port);

    assert_int_equal(write(fd, request, strlen(request)), strlen(request));
    read_all(fd, text, size);
}

static void the_page_is_served_and_nothing_else(void **state)
{
    struct sbx_scrape *scrape;
    int fds = test_count_fds();
    char text[4096];
    uint16_t port;

    (void)state;
    scrape = open_scrape(&port);
    ask(port, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", text, sizeof(text));
    assert_int_equal(strncmp(text, "HTTP/1.1 200 OK\r\n", 17), 0);
    assert_non_null(strstr(text, "Content-Length: 31\r\n"));
    assert_non_null(strstr(text, "\r\n\r\n# HELP x X.\n# TYPE x gauge\nx 1\n"));
    ask(port, "HEAD /metrics HTTP/1.1\r\n\r\n", text, sizeof(text));
    assert_non_null(strstr(text, "Content-Length: 31\r\n"));
    assert_null(strstr(text, "# HELP"));
    ask(port, "GET /etc/passwd HTTP/1.1\r\n\r\n", text, sizeof(text));
    assert_int_equal(strncmp(text, "HTTP/1.1 404 Not Found\r\n", 24), 0);
    assert_null(sbx_scrape_free(scrape));
    assert_int_equal(test_count_fds(), fds);
}

/* Returns how long the answer took that was asked for behind a crowd that says nothing. */
static int64_t ask_behind_a_crowd(uint16_t port)
{
    int64_t start_ns = cr_clock_mono_ns();
    int silent[CROWD];
    char text[4096];

    for (size_t i = 0; i < CROWD; i++)
        silent[i] = connect_to(port);
    ask(port, "GET /metrics HTTP/1.1\r\n\r\n", text, sizeof(text));
    assert_non_null(strstr(text, "\nx 1\n"));
    for (size_t i = 0; i < CROWD; i++)
        (void)close(silent[i]);
    return cr_clock_mono_ns() - start_ns;
}

/* More than there is room for: the oldest make room before their time is over. */
static void silent_connections_do_not_keep_others_out(void **state)
{
    struct sbx_scrape *scrape;
    bool has_been_quick = false;
    uint16_t port;

    (void)state;
    scrape = open_scrape(&port);
    for (int i = 0; i < TRIES && !has_been_quick; i++)
        has_been_quick = ask_behind_a_crowd(port) < SILENT_NS;
    assert_true(has_been_quick);
    assert_null(sbx_scrape_free(scrape));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_are_told_apart),
        cmocka_unit_test(the_page_is_served_and_nothing_else),
        cmocka_unit_test(silent_connections_do_not_keep_others_out),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
