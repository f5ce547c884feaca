/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "sandboxd/wire/lifeline.h"
#include "tests/harness/test.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include <sys/socket.h>

static int setup(void **state)
{
    static int pair[2];

    *state = pair;
    return socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair);
}

static int teardown(void **state)
{
    int *pair = *state;

    cr_close_fd(&pair[0]);
    cr_close_fd(&pair[1]);
    return 0;
}

static void lifeline_carries_a_value(void **state)
{
    const int *pair = *state;
    struct sbx_lifeline_msg msg;
    int fd = 0;

    assert_int_equal(sbx_lifeline_receive(pair[1], &msg, &fd), -EAGAIN);
    assert_int_equal(sbx_lifeline_send(pair[0], SBX_LIFELINE_READY, 7, -1), 0);
    assert_int_equal(sbx_lifeline_receive(pair[1], &msg, &fd), 0);
    assert_int_equal(msg.type, SBX_LIFELINE_READY);
    assert_int_equal(msg.value, 7);
    assert_int_equal(fd, -1);
}

static void lifeline_carries_a_descriptor(void **state)
{
    const int *pair = *state;
    struct sbx_lifeline_msg msg;
    int ends[2];
    int fd = -1;

    assert_int_equal(pipe(ends), 0);
    assert_int_equal(sbx_lifeline_send(pair[0], SBX_LIFELINE_WIRE, 0, ends[1]), 0);
    assert_int_equal(close(ends[1]), 0);
    assert_int_equal(sbx_lifeline_receive(pair[1], &msg, &fd), 0);
    assert_int_equal(msg.type, SBX_LIFELINE_WIRE);
    assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
    assert_int_equal(write(fd, "x", 1), 1);
    assert_int_equal(close(fd), 0);
    assert_int_equal(close(ends[0]), 0);
}

static void lifeline_refuses_what_is_no_message_and_keeps_no_descriptor(void **state)
{
    static const struct sbx_lifeline_msg wrong[] = {{2, 1, 0, 0}, {1, 1, 0, 9}};
    const int *pair = *state;
    int fds = test_count_fds();
    struct sbx_lifeline_msg msg;
    int fd = -1;

    for (size_t i = 0; i < CR_ARRAY_SIZE(wrong); i++) {
        assert_int_equal(send(pair[0], &wrong[i], sizeof(wrong[i]), 0), sizeof(wrong[i]));
        assert_int_equal(sbx_lifeline_receive(pair[1], &msg, &fd), -EPROTO);
    }
    assert_int_equal(send(pair[0], "short", 5, 0), 5);
    assert_int_equal(sbx_lifeline_receive(pair[1], &msg, &fd), -EPROTO);
    assert_int_equal(test_count_fds(), fds);
}

static void lifeline_reports_its_end(void **state)
{
    int *pair = *state;
    struct sbx_lifeline_msg msg;
    int fd = -1;

    cr_close_fd(&pair[0]);
    assert_int_equal(sbx_lifeline_receive(pair[1], &msg, &fd), -EPIPE);
    assert_int_equal(sbx_lifeline_send(pair[1], SBX_LIFELINE_READY, 0, -1), -EPIPE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(lifeline_carries_a_value, setup, teardown),
        cmocka_unit_test_setup_teardown(lifeline_carries_a_descriptor, setup, teardown),
        cmocka_unit_test_setup_teardown(lifeline_refuses_what_is_no_message_and_keeps_no_descriptor,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(lifeline_reports_its_end, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
