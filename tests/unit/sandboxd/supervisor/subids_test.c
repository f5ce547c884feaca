/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "sandboxd/supervisor/subids.h"
#include "tests/harness/test.h"

static const struct {
    const char *text;
    uint32_t first;
    uint32_t count; /* 0: none is found */
} rows[] = {
    {"ana:100000:65536\n", 100000, 65536},
    {"ana:100000:65536", 100000, 65536},
    {"1000:5:7\n", 5, 7},
    {"eva:100000:65536\nana:200000:10\n1000:300000:20\n", 300000, 20},
    {"", 0, 0},
    {"\n\n", 0, 0},
    {"ana\n", 0, 0},
    {"ana:\n", 0, 0},
    {"ana:1\n", 0, 0},
    {"ana:1:\n", 0, 0},
    {"ana:1:0\n", 0, 0},
    {"ana:1:-5\n", 0, 0},
    {"ana:+1:5\n", 0, 0},
    {"ana:1:5:6\n", 0, 0},
    {"ana:1:5x\n", 0, 0},
    {"ana:4294967295:1\n", 0, 0}, /* (uid_t)-1 is nobody */
    {"ana:99999999999:1\n", 0, 0},
    {"anabel:1:5\n", 0, 0},
    {"an:1:5\n", 0, 0},
    {"10000:1:5\n", 0, 0},
    {"# ana:1:5\nana:2:6\n", 2, 6},
};

static void the_largest_range_of_a_user_is_found(void **state)
{
    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(rows); i++) {
        struct sbx_subids range = {0};

        if (sbx_subids_find(rows[i].text, "ana", 1000, &range) != (rows[i].count > 0) ||
            range.first != rows[i].first || range.count != rows[i].count)
            fail_msg("'%s' gave %u, %u", rows[i].text, range.first, range.count);
    }
}

static void a_user_without_a_name_has_a_number(void **state)
{
    struct sbx_subids range;

    (void)state;
    assert_true(sbx_subids_find("ana:1:5\n1000:2:6\n", NULL, 1000, &range));
    assert_int_equal(range.count, 6);
    assert_false(sbx_subids_find("ana:1:5\n", NULL, 1000, &range));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_largest_range_of_a_user_is_found),
        cmocka_unit_test(a_user_without_a_name_has_a_number),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
