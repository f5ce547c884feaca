/* SPDX-License-Identifier: Apache-2.0 */
#include "common/err.h"
#include "sandboxd/docker/docker.h"
#include "tests/harness/test.h"

#include <errno.h>
#include <string.h>

static void a_slot_moves_as_the_table_says(void **state)
{
    static const bool legal[SBX_DOCKER_SLOT_STATE_COUNT][SBX_DOCKER_SLOT_STATE_COUNT] = {
        [SBX_DOCKER_SLOT_FREE] = {[SBX_DOCKER_SLOT_STARTING] = true},
        [SBX_DOCKER_SLOT_STARTING] = {[SBX_DOCKER_SLOT_LOADING] = true,
                                      [SBX_DOCKER_SLOT_IDLE] = true,
                                      [SBX_DOCKER_SLOT_FREE] = true},
        [SBX_DOCKER_SLOT_LOADING] = {[SBX_DOCKER_SLOT_IDLE] = true, [SBX_DOCKER_SLOT_FREE] = true},
        [SBX_DOCKER_SLOT_IDLE] = {[SBX_DOCKER_SLOT_FREE] = true},
    };

    (void)state;
    for (int from = 0; from <= SBX_DOCKER_SLOT_STATE_COUNT; from++) {
        for (int to = 0; to <= SBX_DOCKER_SLOT_STATE_COUNT; to++) {
            bool is_legal = from < SBX_DOCKER_SLOT_STATE_COUNT &&
                            to < SBX_DOCKER_SLOT_STATE_COUNT && legal[from][to];

            assert_int_equal(sbx_docker_slot_can_move((enum sbx_docker_slot_state)from,
                                                      (enum sbx_docker_slot_state)to),
                             is_legal);
        }
    }
}

static void slots_are_as_many_as_the_setting_says(void **state)
{
    struct sbx_docker_pool pool;
    struct cr_err err = CR_ERR_INIT;

    (void)state;
    assert_int_equal(sbx_docker_pool_init(&pool, NULL, false, NULL), 0);
    assert_int_equal(pool.slot_count, 2);
    assert_int_equal(sbx_docker_pool_init(&pool, "0", true, NULL), 0);
    assert_int_equal(pool.slot_count, 0);
    assert_int_equal(sbx_docker_pool_init(&pool, "0,plain=16", true, NULL), 0);
    assert_int_equal(pool.slot_count, 16);
    assert_true(sbx_docker_pool_is_empty(&pool));
    assert_int_equal(sbx_docker_pool_init(&pool, "node=1", true, &err), -EINVAL);
    assert_non_null(strstr(err.text, "node=1"));
    assert_int_equal(sbx_docker_pool_init(&pool, "0,plain=9,pytest=8", true, &err), -EINVAL);
}

static uint32_t count_of(const struct sbx_docker_pool *pool, uint32_t kind)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < pool->slot_count; i++)
        count += pool->slots[i].kind == kind;
    return count;
}

static void interpreters_wait_only_where_they_may(void **state)
{
    struct sbx_docker_pool pool;

    (void)state;
    assert_int_equal(sbx_docker_pool_init(&pool, "plain=3,pytest-shallow=1", true, NULL), 0);
    assert_int_equal(count_of(&pool, SBX_DOCKER_KIND_PLAIN), 3);
    assert_int_equal(count_of(&pool, SBX_TEMPLATE_PYTHON), 1);
    assert_int_equal(count_of(&pool, SBX_TEMPLATE_PYTEST), 2);
    assert_int_equal(count_of(&pool, SBX_TEMPLATE_PYTEST_SHALLOW), 1);
    sbx_docker_pool_keep_plain(&pool);
    assert_int_equal(pool.slot_count, 3);
    assert_int_equal(count_of(&pool, SBX_DOCKER_KIND_PLAIN), 3);
    assert_int_equal(sbx_docker_pool_init(&pool, "plain=3,pytest=4", false, NULL), 0);
    assert_int_equal(pool.slot_count, 3);
}

/* Answers of the engine find their box by it. */
static void a_box_has_a_place_of_its_own(void **state)
{
    static struct sbx_docker docker; /* large */

    (void)state;
    assert_int_equal(sbx_docker_pool_init(&docker.pool, "0,plain=16", true, NULL), 0);
    sbx_docker_run_init(&docker.runs[63], 63);
    assert_ptr_equal(sbx_docker_box_at(&docker, 63), &docker.runs[63].box);
    for (uint32_t i = 0; i < docker.pool.slot_count; i++)
        assert_ptr_equal(sbx_docker_box_at(&docker, docker.pool.slots[i].box.place),
                         &docker.pool.slots[i].box);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_slot_moves_as_the_table_says),
        cmocka_unit_test(slots_are_as_many_as_the_setting_says),
        cmocka_unit_test(interpreters_wait_only_where_they_may),
        cmocka_unit_test(a_box_has_a_place_of_its_own),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
