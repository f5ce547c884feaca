/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "sandboxd/front/queue.h"
#include "tests/harness/test.h"

#include <errno.h>

static void queue_is_first_in_first_out_for_one_caller(void **state)
{
    struct sbx_queue_entry entries[3] = {0};
    struct sbx_queue queue;

    (void)state;
    sbx_queue_init(&queue, 3);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(sbx_queue_push(&queue, &entries[i], "a"), 0);

    for (size_t i = 0; i < 3; i++)
        assert_ptr_equal(sbx_queue_pop(&queue), &entries[i]);
    assert_null(sbx_queue_pop(&queue));
}

static void queue_refuses_beyond_its_cap(void **state)
{
    struct sbx_queue_entry entries[2] = {0};
    struct sbx_queue queue;

    (void)state;
    sbx_queue_init(&queue, 1);
    assert_int_equal(sbx_queue_push(&queue, &entries[0], "a"), 0);
    assert_int_equal(sbx_queue_push(&queue, &entries[1], "a"), -ENOSPC);
    assert_false(entries[1].is_queued);

    sbx_queue_init(&queue, 0);
    assert_int_equal(sbx_queue_push(&queue, &entries[1], "a"), -ENOSPC);
}

static void queue_takes_turns_between_callers(void **state)
{
    struct sbx_queue_entry greedy[4] = {0};
    struct sbx_queue_entry modest[2] = {0};
    struct sbx_queue_entry late = {0};
    struct sbx_queue queue;

    (void)state;
    sbx_queue_init(&queue, 16);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(sbx_queue_push(&queue, &greedy[i], "greedy"), 0);
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(sbx_queue_push(&queue, &modest[i], "modest"), 0);

    assert_ptr_equal(sbx_queue_pop(&queue), &greedy[0]);
    assert_ptr_equal(sbx_queue_pop(&queue), &modest[0]);
    assert_ptr_equal(sbx_queue_pop(&queue), &greedy[1]);
    assert_int_equal(sbx_queue_push(&queue, &late, "late"), 0);
    assert_ptr_equal(sbx_queue_pop(&queue), &modest[1]);
    assert_ptr_equal(sbx_queue_pop(&queue), &greedy[2]);
    assert_ptr_equal(sbx_queue_pop(&queue), &late);
    assert_ptr_equal(sbx_queue_pop(&queue), &greedy[3]);
}

static void queue_lets_a_waiting_entry_go(void **state)
{
    struct sbx_queue_entry entries[3] = {0};
    struct sbx_queue queue;

    (void)state;
    sbx_queue_init(&queue, 3);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(sbx_queue_push(&queue, &entries[i], "a"), 0);
    sbx_queue_remove(&queue, &entries[1]);
    sbx_queue_remove(&queue, &entries[1]);

    assert_int_equal(queue.count, 2);
    assert_ptr_equal(sbx_queue_pop(&queue), &entries[0]);
    assert_ptr_equal(sbx_queue_pop(&queue), &entries[2]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(queue_is_first_in_first_out_for_one_caller),
        cmocka_unit_test(queue_refuses_beyond_its_cap),
        cmocka_unit_test(queue_takes_turns_between_callers),
        cmocka_unit_test(queue_lets_a_waiting_entry_go),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
