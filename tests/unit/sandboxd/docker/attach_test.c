/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/err.h"
#include "sandboxd/docker/attach.h"
#include "tests/harness/test.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include <sys/socket.h>

static int ends[2];

static int open_pair(void **state)
{
    (void)state;
    return socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends);
}

static int close_pair(void **state)
{
    (void)state;
    (void)close(ends[0]);
    (void)close(ends[1]);
    return 0;
}

static void engine_says(const char *text)
{
    assert_int_equal(send(ends[1], text, strlen(text), 0), (ssize_t)strlen(text));
}

static void the_head_is_taken_and_nothing_behind_it(void **state)
{
    struct cr_err err = CR_ERR_INIT;
    char rest[8] = "";

    (void)state;
    assert_int_equal(sbx_attach_end(ends[0], &err), -EAGAIN);
    engine_says("HTTP/1.1 101 UPGRADED\r\nConnection: Upgrade\r\n");
    assert_int_equal(sbx_attach_end(ends[0], &err), -EAGAIN);
    engine_says("Upgrade: tcp\r\n\r\n\1\0rest");
    assert_int_equal(sbx_attach_end(ends[0], &err), 0);
    assert_int_equal(recv(ends[0], rest, sizeof(rest), MSG_DONTWAIT), 1);
    assert_int_equal(rest[0], 1);
}

static void another_answer_is_an_error_that_shows_it(void **state)
{
    struct cr_err err = CR_ERR_INIT;

    (void)state;
    engine_says("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n");
    assert_int_equal(sbx_attach_end(ends[0], &err), -EPROTO);
    assert_non_null(strstr(err.text, "404 Not Found"));
}

static void an_endless_head_is_an_error(void **state)
{
    struct cr_err err = CR_ERR_INIT;
    char line[64];

    (void)state;
    memset(line, 'x', sizeof(line) - 1);
    line[sizeof(line) - 1] = '\0';
    for (int i = 0; i < 100; i++)
        engine_says(line);
    assert_int_equal(sbx_attach_end(ends[0], &err), -EPROTO);
}

static void the_end_instead_of_an_answer_is_an_error(void **state)
{
    struct cr_err err = CR_ERR_INIT;

    (void)state;
    assert_int_equal(shutdown(ends[1], SHUT_WR), 0);
    assert_int_equal(sbx_attach_end(ends[0], &err), -ECONNRESET);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, open_pair, close_pair)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(the_head_is_taken_and_nothing_behind_it),
        CASE(another_answer_is_an_error_that_shows_it),
        CASE(an_endless_head_is_an_error),
        CASE(the_end_instead_of_an_answer_is_an_error),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
