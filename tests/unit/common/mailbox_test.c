/* SPDX-License-Identifier: Apache-2.0 */
#include "common/err.h"
#include "common/mailbox.h"
#include "tests/harness/test.h"

#include <poll.h>

static bool is_readable(const struct cr_mailbox *mailbox)
{
    struct pollfd waiter = {.fd = cr_mailbox_fd(mailbox), .events = POLLIN};

    return poll(&waiter, 1, 0) == 1;
}

static void mailbox_keeps_order_and_is_readable_while_it_has_mail(void **state)
{
    int fds = test_count_fds();
    struct cr_mailbox *mailbox = NULL;
    struct cr_mail first = {0};
    struct cr_mail second = {0};

    (void)state;
    assert_int_equal(cr_mailbox_new(8, &mailbox, NULL), 0);
    assert_false(is_readable(mailbox));

    assert_int_equal(cr_mailbox_post(mailbox, &first, false), 0);
    assert_int_equal(cr_mailbox_post(mailbox, &second, false), 0);
    assert_true(is_readable(mailbox));

    assert_ptr_equal(cr_mailbox_take_all(mailbox), &first);
    assert_ptr_equal(first.next, &second);
    assert_null(second.next);
    assert_false(is_readable(mailbox));
    assert_null(cr_mailbox_take_all(mailbox));
    assert_null(cr_mailbox_free(mailbox));
    assert_int_equal(test_count_fds(), fds);
}

static void mailbox_cap_stops_ordinary_mail_only(void **state)
{
    struct cr_mailbox *mailbox = NULL;
    struct cr_mail mails[3] = {0};

    (void)state;
    assert_int_equal(cr_mailbox_new(1, &mailbox, NULL), 0);

    assert_int_equal(cr_mailbox_post(mailbox, &mails[0], false), 0);
    assert_int_equal(cr_mailbox_post(mailbox, &mails[1], false), -ENOSPC);
    assert_int_equal(cr_mailbox_post(mailbox, &mails[2], true), 0);

    assert_ptr_equal(cr_mailbox_take_all(mailbox)->next, &mails[2]);
    assert_null(cr_mailbox_free(mailbox));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mailbox_keeps_order_and_is_readable_while_it_has_mail),
        cmocka_unit_test(mailbox_cap_stops_ordinary_mail_only),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
