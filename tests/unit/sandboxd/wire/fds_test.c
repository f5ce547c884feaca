/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "sandboxd/wire/fds.h"
#include "tests/harness/test.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include <sys/socket.h>

struct fixture {
    int pair[2];
    int fd_count;
};

static int open_pair(void **state)
{
    static struct fixture fixture;

    fixture.fd_count = test_count_fds();
    *state = &fixture;
    return socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fixture.pair);
}

/* Nothing that came stays open unless the test took it. */
static int close_pair(void **state)
{
    struct fixture *fixture = *state;

    cr_close_fd(&fixture->pair[0]);
    cr_close_fd(&fixture->pair[1]);
    return test_count_fds() == fixture->fd_count ? 0 : -1;
}

static void message_brings_its_fds_in_order(void **state)
{
    const struct fixture *fixture = *state;
    const int sent[2] = {fixture->pair[0], fixture->pair[1]};
    int got[3] = {-1, -1, -1};
    uint32_t word = 7;

    assert_int_equal(sbx_fds_send(fixture->pair[0], &word, sizeof(word), sent, 2), 0);
    word = 0;

    assert_int_equal(sbx_fds_receive(fixture->pair[1], &word, sizeof(word), got, 3, 0), 2);
    assert_int_equal(word, 7);
    assert_int_equal(fcntl(got[0], F_GETFD), FD_CLOEXEC);
    assert_int_equal(write(got[0], "x", 1), 1); /* the end that was sent first */
    assert_int_equal(recv(fixture->pair[1], &word, 1, 0), 1);
    assert_int_equal(close(got[0]) | close(got[1]), 0);
}

static void message_of_another_size_is_refused_and_closed(void **state)
{
    const struct fixture *fixture = *state;
    uint32_t word = 7;
    int got[1] = {-1};

    assert_int_equal(sbx_fds_send(fixture->pair[0], &word, 2, fixture->pair, 1), 0);
    assert_int_equal(sbx_fds_receive(fixture->pair[1], &word, sizeof(word), got, 1, 0), -EPROTO);

    assert_int_equal(got[0], -1);
}

static void more_fds_than_expected_are_refused_and_closed(void **state)
{
    const struct fixture *fixture = *state;
    uint32_t word = 7;
    int got[1] = {-1};

    assert_int_equal(sbx_fds_send(fixture->pair[0], &word, sizeof(word), fixture->pair, 2), 0);
    assert_int_equal(sbx_fds_receive(fixture->pair[1], &word, sizeof(word), got, 1, 0), -EPROTO);

    assert_int_equal(got[0], -1);
}

static void end_of_the_connection_is_told(void **state)
{
    struct fixture *fixture = *state;
    uint32_t word = 7;

    assert_int_equal(sbx_fds_receive(fixture->pair[1], &word, sizeof(word), NULL, 0, MSG_DONTWAIT),
                     -EAGAIN);
    cr_close_fd(&fixture->pair[0]);

    assert_int_equal(sbx_fds_receive(fixture->pair[1], &word, sizeof(word), NULL, 0, 0), -EPIPE);
    assert_int_equal(sbx_fds_send(fixture->pair[1], &word, sizeof(word), NULL, 0), -EPIPE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(message_brings_its_fds_in_order, open_pair, close_pair),
        cmocka_unit_test_setup_teardown(message_of_another_size_is_refused_and_closed, open_pair,
                                        close_pair),
        cmocka_unit_test_setup_teardown(more_fds_than_expected_are_refused_and_closed, open_pair,
                                        close_pair),
        cmocka_unit_test_setup_teardown(end_of_the_connection_is_told, open_pair, close_pair),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
