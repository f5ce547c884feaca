/* SPDX-License-Identifier: Apache-2.0 */
#include "common/err.h"
#include "tests/harness/test.h"

#include <string.h>

static void err_reads_from_the_outside_in(void **state)
{
    struct cr_err err = CR_ERR_INIT;

    (void)state;
    assert_int_equal(cr_err_sys(&err, ENOENT, "open '%s'", "pids.max"), -ENOENT);
    assert_int_equal(cr_err_wrap(&err, "limit cgroup '%s'", "a"), -ENOENT);

    assert_string_equal(err.text, "limit cgroup 'a': open 'pids.max': No such file or directory");
}

static void err_may_be_absent(void **state)
{
    (void)state;
    assert_int_equal(cr_err_set(NULL, EPROTO, "x"), -EPROTO);
    assert_int_equal(cr_err_sys(NULL, EIO, "x"), -EIO);
    assert_int_equal(cr_err_wrap(NULL, "x"), -EINVAL);
}

static void err_cuts_a_text_that_is_too_long(void **state)
{
    struct cr_err err = CR_ERR_INIT;
    char name[CR_ERR_TEXT_MAX * 2];

    (void)state;
    memset(name, 'n', sizeof(name));
    name[sizeof(name) - 1] = '\0';

    assert_int_equal(cr_err_sys(&err, ENOENT, "%s", name), -ENOENT);
    assert_int_equal(strlen(err.text), CR_ERR_TEXT_MAX - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(err_reads_from_the_outside_in),
        cmocka_unit_test(err_may_be_absent),
        cmocka_unit_test(err_cuts_a_text_that_is_too_long),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
