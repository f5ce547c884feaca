/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/interest.h"
#include "tests/harness/test.h"

#include <errno.h>
#include <unistd.h>

#include <sys/epoll.h>
#include <sys/eventfd.h>

static void it_is_added_changed_left_alone_and_taken_off(void **state)
{
    CR_AUTO_CLOSE int epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    CR_AUTO_CLOSE int fd = eventfd(1, EFD_CLOEXEC);
    struct epoll_event event;
    uint32_t interest = 0;

    (void)state;
    assert_int_equal(cr_interest_set(epoll_fd, fd, &fd, &interest, EPOLLIN), 0);
    assert_int_equal(interest, EPOLLIN);
    assert_int_equal(epoll_wait(epoll_fd, &event, 1, 0), 1);
    assert_ptr_equal(event.data.ptr, &fd);
    assert_int_equal(cr_interest_set(epoll_fd, fd, &fd, &interest, EPOLLOUT), 0);
    assert_int_equal(epoll_wait(epoll_fd, &event, 1, 0), 1);
    assert_int_equal(event.events, EPOLLOUT);
    assert_int_equal(cr_interest_set(-1, fd, &fd, &interest, EPOLLOUT),
                     0); /* the kernel is not asked */
    assert_int_equal(cr_interest_set(epoll_fd, fd, &fd, &interest, 0), 0);
    assert_int_equal(interest, 0);
    assert_int_equal(epoll_wait(epoll_fd, &event, 1, 0), 0);
}

static void a_refusal_changes_nothing_and_a_closed_fd_is_left_alone(void **state)
{
    uint32_t interest = 0;

    (void)state;
    assert_int_equal(cr_interest_set(-1, -1, NULL, &interest, EPOLLIN), 0);
    assert_int_equal(cr_interest_set(-1, STDIN_FILENO, NULL, &interest, EPOLLIN), -EBADF);
    assert_int_equal(interest, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_is_added_changed_left_alone_and_taken_off),
        cmocka_unit_test(a_refusal_changes_nothing_and_a_closed_fd_is_left_alone),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
