/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "orchestrator/http/judge_version.h"
#include "tests/harness/test.h"

static const struct {
    const char *said;
    const char *plain;
} plains[] = {
    {"Python 3.11.2", "3.11.2"},
    {"gcc (Debian 12.2.0-14+deb12u1) 12.2.0", "12.2.0"},
    {"openjdk 17.0.17.1 2025-10-21", "17.0.17.1"},
    {"v18.", "18"},
    {"", "0.0.0"},
    {"none", "0.0.0"},
    {"1.1.1.1.1.1.1.1.1.1.1.1.1.1.1.1.1", "0.0.0"}, /* of nobody */
};

static void the_numbers_of_a_version_are_found(void **state)
{
    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(plains); i++) {
        char plain[AGT_JUDGE_VERSION_SIZE];

        agt_judge_version_plain(plains[i].said, plain);
        assert_string_equal(plain, plains[i].plain);
    }
}

/* As node-semver's own tables have them. */
static const struct {
    const char *version;
    const char *range;
    bool fits;
} rows[] = {
    {"3.11.2", "*", true},
    {"3.11.2", "", true},
    {"3.11.2", "x.x.x", true},
    {"3.11.2", "3", true},
    {"3.11.2", "3.X", true},
    {"3.11.2", "3.*.2", true},
    {"3.11.2", "v3.11.2", true},
    {"3.11.2", "=3.11.2", true},
    {"3.11.2", "= 3.11.2", true},
    {"3.11.2", "3.11.1", false},
    {"3.11.2", ">3.11", false},
    {"3.12.0", ">3.11", true},
    {"3.11.2", ">= 3.11", true},
    {"3.11.2", "<3.11", false},
    {"3.11.2", "<=3.11", true},
    {"3.11.2", "<3.11.3", true},
    {"3.11.2", ">*", false},
    {"1.9.0", "^1.2.3", true},
    {"1.2.2", "^1.2.3", false},
    {"2.0.0", "^1.2.3", false},
    {"0.2.9", "^0.2.3", true},
    {"0.3.0", "^0.2.3", false},
    {"0.0.4", "^0.0.3", false},
    {"0.9.0", "^0.x", true},
    {"1.0.0", "^0", false},
    {"1.2.9", "~1.2.3", true},
    {"1.3.0", "~1.2.3", false},
    {"1.9.0", "~>1", true},
    {"2.0.0", "~1", false},
    {"3.9.18", ">=3.8 <3.10", true},
    {"3.10.0", ">=3.8 <3.10", false},
    {"3.10.4", "3.8 - 3.10", true},
    {"3.11.0", "3.8 - 3.10", false},
    {"3.11.0", "2.7 || >=3.11 <4||1", true},
    {"3.10.0", "2.7 || >=3.11 <4||1", false},
    {"1.0.0", "2||", true},
    {"3.11.2", "three", false},
    {"3.11.2", "3a", false},
    {"3.11.2", "3.11.2.1", false},
    {"3.11.2", "3.", false},
    {"3.11.2", ">", false},
    {"3.11.2", "3 -", false},
    {"3.11.2", "* || three", false}, /* what cannot be read spoils all */
    {"3.11.2", "9999999999999999999", false},
};

static void a_version_fits_its_ranges(void **state)
{
    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(rows); i++) {
        struct agt_judge_version version;

        agt_judge_version_read(rows[i].version, &version);
        if (agt_judge_version_fits(&version, rows[i].range) != rows[i].fits)
            fail_msg("%s and '%s'", rows[i].version, rows[i].range);
    }
}

static void versions_have_an_order(void **state)
{
    static const char *const ordered[] = {"", "0.9", "0.10.0", "3", "3.0.1", "3.11"};

    (void)state;
    for (size_t i = 0; i + 1 < CR_ARRAY_SIZE(ordered); i++) {
        struct agt_judge_version a;
        struct agt_judge_version b;

        agt_judge_version_read(ordered[i], &a);
        agt_judge_version_read(ordered[i + 1], &b);
        assert_true(agt_judge_version_compare(&a, &b) < 0);
        assert_true(agt_judge_version_compare(&b, &a) > 0);
        assert_int_equal(agt_judge_version_compare(&a, &a), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_numbers_of_a_version_are_found),
        cmocka_unit_test(a_version_fits_its_ranges),
        cmocka_unit_test(versions_have_an_order),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
