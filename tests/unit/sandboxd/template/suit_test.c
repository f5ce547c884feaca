/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "sandboxd/backend/job.h"
#include "sandboxd/runtimes/table.h"
#include "sandboxd/template/suit.h"
#include "tests/harness/test.h"

static struct sbx_job job_of(const char *runtime, uint32_t flags)
{
    struct sbx_job job = {.flags = flags, .limits = sbx_default_limits};
    int index = sbx_runtime_find(runtime);

    assert_true(index >= 0);
    job.runtime = (uint32_t)index;
    return job;
}

static void an_interpreter_suits_what_it_was_started_for(void **state)
{
    static const struct {
        const char *runtime;
        uint32_t flags;
        bool suits[SBX_TEMPLATE_KIND_COUNT]; /* python, pytest, pytest-shallow */
    } cases[] = {
        {"python", 0, {true, false, false}},
        {"python", SBX_RUN_HAS_ARGS, {true, false, false}},
        {"python", SBX_RUN_HAS_OWN, {false, false, false}},
        {"pytest", 0, {false, true, false}},
        {"pytest", SBX_RUN_HAS_ARGS, {false, false, true}},
        {"python", SBX_RUN_HAS_ARGS | SBX_RUN_STOPS_EARLY, {true, false, false}},
        {"pytest", SBX_RUN_HAS_ARGS | SBX_RUN_STOPS_EARLY, {false, true, false}},
        {"pytest", SBX_RUN_HAS_OWN, {false, false, false}},
        {"pytest", SBX_RUN_HAS_ARGS | SBX_RUN_HAS_OWN, {false, false, false}},
        {"shell", 0, {false, false, false}},
    };

    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(cases); i++) {
        const struct sbx_job job = job_of(cases[i].runtime, cases[i].flags);

        for (uint32_t kind = 0; kind < SBX_TEMPLATE_KIND_COUNT; kind++)
            assert_int_equal(sbx_template_suits(kind, &job), cases[i].suits[kind]);
    }
}

static void another_stack_suits_none(void **state)
{
    struct sbx_job job = job_of("python", 0);

    (void)state;
    job.limits.value[SBX_LIMIT_STACK] *= 2;
    for (uint32_t kind = 0; kind < SBX_TEMPLATE_KIND_COUNT; kind++)
        assert_false(sbx_template_suits(kind, &job));
}

static void who_is_to_be_the_only_process_is_no_interpreter_that_waits(void **state)
{
    struct sbx_job job = job_of("python", 0);

    (void)state;
    job.limits.value[SBX_LIMIT_PROCESSES] = 2;
    assert_true(sbx_template_suits(SBX_TEMPLATE_PYTHON, &job));
    job.limits.value[SBX_LIMIT_PROCESSES] = 1;
    assert_false(sbx_template_suits(SBX_TEMPLATE_PYTHON, &job));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_interpreter_suits_what_it_was_started_for),
        cmocka_unit_test(another_stack_suits_none),
        cmocka_unit_test(who_is_to_be_the_only_process_is_no_interpreter_that_waits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
