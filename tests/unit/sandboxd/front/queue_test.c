/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "sandboxd/front/queue.h"
#include "tests/harness/test.h"

#include <errno.h>

/* Where nobody is displaced. */
static int push(struct sbx_queue *queue, struct sbx_queue_entry *entry, const char *caller)
{
    struct sbx_queue_entry *displaced;
    int r = sbx_queue_push(queue, entry, caller, &displaced);

    assert_null(displaced);
    return r;
}

static void queue_is_first_in_first_out_for_one_caller(void **state)
{
    struct sbx_queue_entry entries[3] = {0};
    struct sbx_queue queue;

    (void)state;
    sbx_queue_init(&queue, 3);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(push(&queue, &entries[i], "a"), 0);

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
    assert_int_equal(push(&queue, &entries[0], "a"), 0);
    assert_int_equal(push(&queue, &entries[1], "a"), -ENOSPC);
    assert_false(entries[1].is_queued);

    sbx_queue_init(&queue, 0);
    assert_int_equal(push(&queue, &entries[1], "a"), -ENOSPC);
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
        assert_int_equal(push(&queue, &greedy[i], "greedy"), 0);
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(push(&queue, &modest[i], "modest"), 0);

    assert_ptr_equal(sbx_queue_pop(&queue), &greedy[0]);
    assert_ptr_equal(sbx_queue_pop(&queue), &modest[0]);
    assert_ptr_equal(sbx_queue_pop(&queue), &greedy[1]);
    assert_int_equal(push(&queue, &late, "late"), 0);
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
        assert_int_equal(push(&queue, &entries[i], "a"), 0);
    sbx_queue_remove(&queue, &entries[1]);
    sbx_queue_remove(&queue, &entries[1]);

    assert_int_equal(queue.count, 2);
    assert_ptr_equal(sbx_queue_pop(&queue), &entries[0]);
    assert_ptr_equal(sbx_queue_pop(&queue), &entries[2]);
}

static void full_queue_is_shared_with_callers_who_come_later(void **state)
{
    struct sbx_queue_entry greedy[5] = {0};
    struct sbx_queue_entry modest[3] = {0};
    struct sbx_queue_entry *displaced;
    struct sbx_queue queue;

    (void)state;
    sbx_queue_init(&queue, 4);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(push(&queue, &greedy[i], "greedy"), 0); /* all of it, alone */
    assert_int_equal(push(&queue, &greedy[4], "greedy"), -ENOSPC);

    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(sbx_queue_push(&queue, &modest[i], "modest", &displaced), 0);
        assert_ptr_equal(displaced, &greedy[3 - i]); /* its last ones go first */
        assert_false(displaced->is_queued);
    }
    assert_int_equal(push(&queue, &modest[2], "modest"), -ENOSPC); /* both have half */
    assert_int_equal(push(&queue, &greedy[4], "greedy"), -ENOSPC);
    assert_int_equal(queue.count, 4);
    assert_ptr_equal(sbx_queue_pop(&queue), &greedy[0]);
    assert_ptr_equal(sbx_queue_pop(&queue), &modest[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(queue_is_first_in_first_out_for_one_caller),
        cmocka_unit_test(queue_refuses_beyond_its_cap),
        cmocka_unit_test(queue_takes_turns_between_callers),
        cmocka_unit_test(queue_lets_a_waiting_entry_go),
        cmocka_unit_test(full_queue_is_shared_with_callers_who_come_later),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
