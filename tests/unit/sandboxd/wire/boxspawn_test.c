/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "sandboxd/wire/boxspawn.h"
#include "tests/harness/test.h"

static void an_order_takes_along_what_its_box_needs_now(void **state)
{
    static const struct {
        enum sbx_box_mode mode;
        bool has_streams;
        uint32_t fds;
    } rows[] = {
        {SBX_BOX_RUN, true, 6},   {SBX_BOX_AHEAD, false, 2},   {SBX_BOX_CELLS, false, 2},
        {SBX_BOX_FILES, true, 6}, {SBX_BOX_TERMINAL, true, 6},
    };

    (void)state;
    assert_int_equal(CR_ARRAY_SIZE(rows), SBX_BOX_MODE_COUNT);
    for (size_t i = 0; i < CR_ARRAY_SIZE(rows); i++) {
        struct sbx_box_order order = {.mode = rows[i].mode};

        assert_int_equal(sbx_box_order_has_streams(&order), rows[i].has_streams);
        assert_int_equal(sbx_box_order_fds(&order), rows[i].fds);
        order.has_root = true;
        assert_int_equal(sbx_box_order_fds(&order), rows[i].fds + 1);
        assert_true(sbx_box_order_fds(&order) <= SBX_BOX_ORDER_FDS);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_order_takes_along_what_its_box_needs_now),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
