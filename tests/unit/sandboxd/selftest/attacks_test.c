/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/selftest/attacks.h"
#include "tests/harness/test.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

static const struct sbx_attack *find(const char *name)
{
    size_t count;
    const struct sbx_attack *attacks = sbx_attacks(&count);

    for (size_t i = 0; i < count; i++) {
        if (strcmp(attacks[i].name, name) == 0)
            return &attacks[i];
    }
    print_error("no attack '%s'\n", name);
    abort();
}

static bool judge(const char *name, const struct sbx_observed *observed)
{
    char seen[256];
    const bool is_held = sbx_attack_judge(find(name), observed, seen, sizeof(seen));

    assert_non_null(strstr(seen, sbx_verdict_name(observed->verdict)));
    return is_held;
}

/* What a right sandbox makes of the fork bomb. */
static struct sbx_observed stopped_fork_bomb(void)
{
    return (struct sbx_observed){
        .verdict = SBX_VERDICT_OK,
        .out = "62 EAGAIN\n",
        .out_size = 10,
        .process_limit_hits = 1,
        .killed_leftovers = 62,
    };
}

static void a_stopped_attack_is_held(void **state)
{
    const struct sbx_observed observed = stopped_fork_bomb();

    (void)state;
    assert_true(judge("fork-bomb", &observed));
}

static void each_wrong_sign_is_seen(void **state)
{
    struct sbx_observed observed = stopped_fork_bomb();

    (void)state;
    observed.out = "200 none\n";
    assert_false(judge("fork-bomb", &observed));
    observed.out = "64 EAGAIN\n"; /* one more than the limit */
    assert_false(judge("fork-bomb", &observed));
    observed.out = "62 ENOMEM\n";
    assert_false(judge("fork-bomb", &observed));
    observed.out = "62 EAGAIN";
    assert_false(judge("fork-bomb", &observed));
    observed.out = "";
    assert_false(judge("fork-bomb", &observed));

    observed = stopped_fork_bomb();
    observed.verdict = SBX_VERDICT_NONZERO_EXIT;
    assert_false(judge("fork-bomb", &observed));
    observed = stopped_fork_bomb();
    observed.exit_code = 1;
    assert_false(judge("fork-bomb", &observed));
    observed = stopped_fork_bomb();
    observed.process_limit_hits = 0; /* the program says so, the kernel does not */
    assert_false(judge("fork-bomb", &observed));
}

static void a_limit_needs_its_counters(void **state)
{
    struct sbx_observed observed = {.verdict = SBX_VERDICT_MEMORY_LIMIT,
                                    .signal = SIGKILL,
                                    .out = "",
                                    .oom_kills = 1,
                                    .memory_peak_bytes = UINT64_C(128) << 20};

    (void)state;
    assert_true(judge("eat-memory", &observed));
    observed.memory_peak_bytes = UINT64_C(256) << 20;
    assert_false(judge("eat-memory", &observed));
    observed.memory_peak_bytes = UINT64_C(128) << 20;
    observed.oom_kills = 0;
    assert_false(judge("eat-memory", &observed));
}

static void an_unknown_variable_in_the_environment_is_a_leak(void **state)
{
    static const char given[] = "HOME=/workspace\0TZ=UTC\0HOME=/workspace";
    static const char leaked[] = "HOME=/workspace\0GEMINI_API_KEY=x";
    struct sbx_observed observed = {
        .verdict = SBX_VERDICT_OK, .out = given, .out_size = sizeof(given)};

    (void)state;
    assert_true(judge("environments", &observed));
    observed.out = leaked;
    observed.out_size = sizeof(leaked);
    assert_false(judge("environments", &observed));
    observed.out_size = 0; /* nothing was read: nothing is shown */
    assert_false(judge("environments", &observed));
}

static void a_flood_is_cut_at_the_limit(void **state)
{
    struct sbx_observed observed = {
        .verdict = SBX_VERDICT_OUTPUT_LIMIT, .out = "", .out_size = 1U << 20};

    (void)state;
    assert_true(judge("flood-stdout", &observed));
    observed.out_size++;
    assert_false(judge("flood-stdout", &observed));
}

static void names_are_unique_and_every_row_is_bounded(void **state)
{
    size_t count;
    const struct sbx_attack *attacks = sbx_attacks(&count);

    (void)state;
    for (size_t i = 0; i < count; i++) {
        char expected[64];

        assert_ptr_equal(find(attacks[i].name), &attacks[i]);
        assert_true(attacks[i].control <= SBX_NO_CONTROL);
        sbx_attack_expected(&attacks[i], expected, sizeof(expected));
        assert_true(expected[0] != '\0');
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stopped_attack_is_held),
        cmocka_unit_test(each_wrong_sign_is_seen),
        cmocka_unit_test(a_limit_needs_its_counters),
        cmocka_unit_test(an_unknown_variable_in_the_environment_is_a_leak),
        cmocka_unit_test(a_flood_is_cut_at_the_limit),
        cmocka_unit_test(names_are_unique_and_every_row_is_bounded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
