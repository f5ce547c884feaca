/* SPDX-License-Identifier: Apache-2.0 */
#include "common/err.h"
#include "sandboxd/supervisor/open_files.h"
#include "tests/harness/test.h"

#include <errno.h>
#include <string.h>

#include <sys/resource.h>

static struct rlimit now(void)
{
    struct rlimit files;

    assert_int_equal(getrlimit(RLIMIT_NOFILE, &files), 0);
    return files;
}

static void the_soft_limit_becomes_the_hard_one(void **state)
{
    struct rlimit files = now();

    (void)state;
    files.rlim_cur = 64;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &files), 0);

    assert_int_equal(sbx_open_files_raise(NULL), 0);

    assert_int_equal(now().rlim_cur, files.rlim_max);
}

/* Last: an ordinary user cannot take it back. */
static void too_few_are_refused_with_what_to_do(void **state)
{
    struct rlimit files = {.rlim_cur = 100, .rlim_max = 1023};
    struct cr_err err = CR_ERR_INIT;

    (void)state;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &files), 0);

    assert_int_equal(sbx_open_files_raise(&err), -EMFILE);

    assert_non_null(strstr(err.text, "at most 1023 files"));
    assert_non_null(strstr(err.text, "ulimit -Hn"));
    assert_int_equal(now().rlim_cur, 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_soft_limit_becomes_the_hard_one),
        cmocka_unit_test(too_few_are_refused_with_what_to_do),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
