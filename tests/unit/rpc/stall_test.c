/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/stall.h"
#include "tests/harness/test.h"

static void entries_run_out_in_their_order(void **state)
{
    struct rpc_stalls list = {.patience_ns = 10};
    struct rpc_stall stalls[3] = {{.owner = NULL}};

    (void)state;
    for (int i = 0; i < 3; i++)
        rpc_stall_start(&list, &stalls[i], i);

    assert_int_equal(rpc_stalls_next_ns(&list), 10);
    assert_null(rpc_stalls_take_due(&list, 9));
    assert_ptr_equal(rpc_stalls_take_due(&list, 11), &stalls[0]);
    assert_ptr_equal(rpc_stalls_take_due(&list, 11), &stalls[1]);
    assert_null(rpc_stalls_take_due(&list, 11));
    assert_ptr_equal(rpc_stalls_take_due(&list, 100), &stalls[2]);
    assert_int_equal(rpc_stalls_next_ns(&list), INT64_MAX);
}

static void an_entry_that_stops_is_not_due(void **state)
{
    struct rpc_stalls list = {.patience_ns = 10};
    struct rpc_stall stalls[3] = {{.owner = NULL}};

    (void)state;
    for (int i = 0; i < 3; i++)
        rpc_stall_start(&list, &stalls[i], 0);
    rpc_stall_stop(&stalls[1]);
    rpc_stall_stop(&stalls[1]);
    rpc_stall_stop(&stalls[0]);

    assert_ptr_equal(rpc_stalls_take_due(&list, 100), &stalls[2]);
    assert_null(rpc_stalls_take_due(&list, 100));
}

static void starting_again_goes_to_the_end(void **state)
{
    struct rpc_stalls list = {.patience_ns = 10};
    struct rpc_stall stalls[2] = {{.owner = NULL}};

    (void)state;
    rpc_stall_start(&list, &stalls[0], 0);
    rpc_stall_start(&list, &stalls[1], 1);
    rpc_stall_start(&list, &stalls[0], 2);

    assert_int_equal(rpc_stalls_next_ns(&list), 11);
    assert_ptr_equal(rpc_stalls_take_due(&list, 100), &stalls[1]);
    assert_ptr_equal(rpc_stalls_take_due(&list, 100), &stalls[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(entries_run_out_in_their_order),
        cmocka_unit_test(an_entry_that_stops_is_not_due),
        cmocka_unit_test(starting_again_goes_to_the_end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
