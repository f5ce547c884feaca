/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/clock.h"
#include "common/err.h"
#include "sandboxd/backend/ahead.h"
#include "sandboxd/backend/backend.h"
#include "sandboxd/backend/job.h"
#include "tests/harness/test.h"

#include <errno.h>
#include <string.h>

static const char *const kinds[] = {"special", "plain"};

static void items_are_read_in_their_order(void **state)
{
    static const struct {
        const char *text;
        uint32_t special;
        uint32_t plain;
    } rows[] = {
        {NULL, 1, 2},
        {"0", 0, 0},
        {"plain=5", 1, 5},
        {"0,plain=3", 0, 3},
        {"special=16,plain=0", 16, 0},
        {"plain=3,0", 0, 0},
    };

    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(rows); i++) {
        uint32_t counts[] = {1, 2};

        assert_int_equal(sbx_ahead_parse(rows[i].text, kinds, 2, counts, NULL), 0);
        assert_int_equal(counts[0], rows[i].special);
        assert_int_equal(counts[1], rows[i].plain);
    }
}

static void what_is_no_item_is_refused_by_name(void **state)
{
    static const char *const bad[] = {"1", "plain", "plain=", "plain=-1", "plain=17", "other=1"};

    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(bad); i++) {
        struct cr_err err = CR_ERR_INIT;
        uint32_t counts[] = {1, 2};

        assert_int_equal(sbx_ahead_parse(bad[i], kinds, 2, counts, &err), -EINVAL);
        assert_non_null(strstr(err.text, bad[i]));
        if (!strchr(bad[i], '=') || strcmp(bad[i], "other=1") == 0)
            assert_non_null(strstr(err.text, "special, plain"));
    }
}

static void a_pool_is_filled_when_no_run_is_being_prepared(void **state)
{
    struct sbx_backend backend = {.slot_count = 1};
    struct sbx_job job;

    (void)state;
    sbx_job_init(&job, 0);
    backend.jobs[0] = &job;
    assert_int_equal(sbx_ahead_quiet_ns(&backend), 0);
    job.state = SBX_JOB_PREPARING;
    job.received_ns = CR_NS_PER_S;
    assert_true(sbx_ahead_quiet_ns(&backend) > CR_NS_PER_S);
    job.state = SBX_JOB_RUNNING;
    job.go_ns = CR_NS_PER_S + 1;
    assert_true(sbx_ahead_quiet_ns(&backend) < CR_NS_PER_S + 10 * CR_NS_PER_MS);
}

static void init_jobs(struct sbx_backend *backend, struct sbx_job *jobs)
{
    for (uint32_t i = 0; i < backend->slot_count; i++) {
        sbx_job_init(&jobs[i], i);
        backend->jobs[i] = &jobs[i];
    }
}

static void there_is_room_beside_fewer_young_runs_than_cores(void **state)
{
    const int64_t now_ns = cr_clock_mono_ns();
    struct sbx_backend backend = {.slot_count = 2};
    struct sbx_job jobs[2];

    (void)state;
    init_jobs(&backend, jobs);
    for (uint32_t i = 0; i < 2; i++) {
        jobs[i].state = SBX_JOB_RUNNING;
        jobs[i].received_ns = now_ns + (1 + i) * 60 * CR_NS_PER_S; /* young for this whole test */
    }
    assert_int_equal(sbx_ahead_room_ns(&backend, 3), 0);
    assert_true(sbx_ahead_room_ns(&backend, 2) > jobs[0].received_ns);
    assert_true(sbx_ahead_room_ns(&backend, 2) < jobs[1].received_ns);
    jobs[1].received_ns = 0; /* goes on for long */
    assert_int_equal(sbx_ahead_room_ns(&backend, 2), 0);
    jobs[1] = jobs[0];
    jobs[0].state = SBX_JOB_FREE;
    assert_int_equal(sbx_ahead_room_ns(&backend, 2), 0);
}

static void a_lull_begins_a_while_after_the_last_run_came(void **state)
{
    struct sbx_backend backend = {.slot_count = 2};
    struct sbx_job jobs[2];

    (void)state;
    init_jobs(&backend, jobs);
    assert_true(sbx_ahead_lull_ns(&backend) < cr_clock_mono_ns());
    jobs[0].received_ns = 2 * CR_NS_PER_S;
    jobs[1].received_ns = 3 * CR_NS_PER_S;
    assert_true(sbx_ahead_lull_ns(&backend) > 3 * CR_NS_PER_S);
    assert_true(sbx_ahead_lull_ns(&backend) < 4 * CR_NS_PER_S);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(items_are_read_in_their_order),
        cmocka_unit_test(what_is_no_item_is_refused_by_name),
        cmocka_unit_test(a_pool_is_filled_when_no_run_is_being_prepared),
        cmocka_unit_test(a_lull_begins_a_while_after_the_last_run_came),
        cmocka_unit_test(there_is_room_beside_fewer_young_runs_than_cores),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
