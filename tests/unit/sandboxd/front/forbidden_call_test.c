/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/backend/seccomp_policy.h"
#include "sandboxd/front/forbidden_call.h"
#include "sandboxd/wire/boxctl.h"
#include "tests/harness/test.h"

#include <string.h>

#include <linux/seccomp.h>

static void every_deadly_call_of_the_policy_has_a_name(void **state)
{
    size_t count;
    size_t deadly = 0;
    const struct sbx_seccomp_rule *policy = sbx_seccomp_policy(&count);

    (void)state;
    for (size_t i = 0; i < count; i++) {
        char name[64];

        if (policy[i].answer != SECCOMP_RET_KILL_PROCESS)
            continue;
        deadly++;
        sbx_forbidden_call_name(policy[i].number, name, sizeof(name));
        if (strncmp(name, "system call", strlen("system call")) == 0)
            fail_msg("%s has no name", name);
    }
    assert_true(deadly > 8);
}

static void calls_without_a_name_are_described(void **state)
{
    char name[64];

    (void)state;
    sbx_forbidden_call_name(511, name, sizeof(name));
    assert_string_equal(name, "system call 511");
    sbx_forbidden_call_name(SBX_CALL_OTHER_DOOR, name, sizeof(name));
    assert_non_null(strstr(name, "another ABI"));
    sbx_forbidden_call_name(SBX_CALL_UNKNOWN, name, sizeof(name));
    assert_non_null(strstr(name, "signal"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_deadly_call_of_the_policy_has_a_name),
        cmocka_unit_test(calls_without_a_name_are_described),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
