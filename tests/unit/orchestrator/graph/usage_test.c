/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/graph/usage.h"
#include "tests/harness/test.h"

#include <stdbool.h>

static void what_calls_took_is_added(void **state)
{
    Crisol__Agent__V1__ModelUsage sum = CRISOL__AGENT__V1__MODEL_USAGE__INIT;
    Crisol__Agent__V1__ModelUsage call = CRISOL__AGENT__V1__MODEL_USAGE__INIT;

    (void)state;
    call.calls = 2;
    call.retries = 1;
    call.prompt_tokens = 10;
    call.answer_tokens = 20;
    call.thought_tokens = 30;
    call.total_tokens = 60;
    call.cost_micro_usd = 7;
    call.cost_is_known = true;
    agt_usage_add(&sum, &call);
    agt_usage_add(&sum, &call);

    assert_int_equal(sum.calls, 4);
    assert_int_equal(sum.retries, 2);
    assert_int_equal(sum.prompt_tokens, 20);
    assert_int_equal(sum.answer_tokens, 40);
    assert_int_equal(sum.thought_tokens, 60);
    assert_int_equal(sum.total_tokens, 120);
    assert_int_equal(sum.cost_micro_usd, 14);
    assert_false(sum.cost_is_known);
}

static void a_sum_that_does_not_fit_is_the_largest_number(void **state)
{
    Crisol__Agent__V1__ModelUsage sum = CRISOL__AGENT__V1__MODEL_USAGE__INIT;
    Crisol__Agent__V1__ModelUsage call = CRISOL__AGENT__V1__MODEL_USAGE__INIT;

    (void)state;
    sum.total_tokens = 1;
    sum.cost_micro_usd = UINT32_MAX;
    sum.prompt_tokens = 1;
    call.total_tokens = UINT32_MAX;
    call.cost_micro_usd = UINT32_MAX;
    call.prompt_tokens = UINT32_MAX - 1;
    agt_usage_add(&sum, &call);

    assert_int_equal(sum.total_tokens, UINT32_MAX);
    assert_int_equal(sum.cost_micro_usd, UINT32_MAX);
    assert_int_equal(sum.prompt_tokens, UINT32_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_calls_took_is_added),
        cmocka_unit_test(a_sum_that_does_not_fit_is_the_largest_number),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
