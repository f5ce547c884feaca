/* SPDX-License-Identifier: Apache-2.0 */
#include "common/beside.h"
#include "common/err.h"
#include "tests/harness/test.h"

#include <limits.h>
#include <string.h>

static void beside_finds_a_program_in_its_own_folder(void **state)
{
    char path[PATH_MAX];

    (void)state;
    assert_int_equal(cr_beside_find("common_beside_test", path, NULL), 0);
    assert_int_equal(path[0], '/');
    assert_string_equal(strrchr(path, '/'), "/common_beside_test");
}

static void beside_names_what_is_not_there(void **state)
{
    char long_name[PATH_MAX];
    char path[PATH_MAX];
    struct cr_err err = CR_ERR_INIT;

    (void)state;
    assert_int_equal(cr_beside_find("no-such-program", path, &err), -ENOENT);
    assert_non_null(strstr(err.text, "/no-such-program"));
    memset(long_name, 'x', sizeof(long_name) - 1);
    long_name[sizeof(long_name) - 1] = '\0';
    assert_int_equal(cr_beside_find(long_name, path, &err), -ENAMETOOLONG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(beside_finds_a_program_in_its_own_folder),
        cmocka_unit_test(beside_names_what_is_not_there),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
