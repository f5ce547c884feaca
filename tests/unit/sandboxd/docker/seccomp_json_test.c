/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/buf.h"
#include "sandboxd/backend/seccomp_policy.h"
#include "sandboxd/docker/json.h"
#include "sandboxd/docker/seccomp_json.h"
#include "tests/harness/test.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include <seccomp.h>

#include <linux/seccomp.h>

static cJSON *make_profile(void)
{
    CR_AUTO_BUF struct cr_buf text = {0};
    cJSON *profile;

    cr_buf_init(&text, 64U << 10);
    assert_int_equal(sbx_seccomp_json(&text, NULL), 0);
    profile = cJSON_Parse(cr_buf_str(&text));
    assert_non_null(profile);
    return profile;
}

/* The group that names a call; each is in one at most. */
static const cJSON *find(const cJSON *profile, const char *name)
{
    const cJSON *found = NULL;
    const cJSON *group;
    const cJSON *item;

    cJSON_ArrayForEach(group, cJSON_GetObjectItem(profile, "syscalls"))
    {
        cJSON_ArrayForEach(item, cJSON_GetObjectItem(group, "names"))
        {
            if (strcmp(item->valuestring, name) != 0)
                continue;
            assert_null(found);
            found = group;
        }
    }
    return found;
}

static const char *action_of(const cJSON *group)
{
    return cJSON_GetStringValue(cJSON_GetObjectItem(group, "action"));
}

static void unknown_calls_get_enosys(void **state)
{
    CR_AUTO_JSON cJSON *profile = make_profile();

    (void)state;
    assert_string_equal(cJSON_GetStringValue(cJSON_GetObjectItem(profile, "defaultAction")),
                        "SCMP_ACT_ERRNO");
    assert_int_equal(cJSON_GetObjectItem(profile, "defaultErrnoRet")->valueint, ENOSYS);
}

/* The table of the native backend, row by row. */
static void every_rule_of_the_policy_is_there(void **state)
{
    CR_AUTO_JSON cJSON *profile = make_profile();
    size_t count;
    const struct sbx_seccomp_rule *policy = sbx_seccomp_policy(&count);

    (void)state;
    for (size_t i = 0; i < count; i++) {
        CR_AUTO_FREE char *name =
            seccomp_syscall_resolve_num_arch(SCMP_ARCH_NATIVE, (int)policy[i].number);
        const cJSON *group;

        if (!name || strcmp(name, "seccomp") == 0 || strcmp(name, "capset") == 0)
            continue;
        group = find(profile, name);
        assert_non_null(group);
        if (policy[i].filter || policy[i].answer == SECCOMP_RET_ALLOW) {
            assert_string_equal(action_of(group), "SCMP_ACT_ALLOW");
        } else if (policy[i].answer == SECCOMP_RET_KILL_PROCESS) {
            assert_string_equal(action_of(group), "SCMP_ACT_TRACE");
        } else {
            assert_string_equal(action_of(group), "SCMP_ACT_ERRNO");
            assert_int_equal(cJSON_GetObjectItem(group, "errnoRet")->valueint,
                             policy[i].answer & SECCOMP_RET_DATA);
        }
    }
}

static void sandbox_init_may_do_what_it_needs(void **state)
{
    CR_AUTO_JSON cJSON *profile = make_profile();

    (void)state;
    assert_string_equal(action_of(find(profile, "seccomp")), "SCMP_ACT_ALLOW");
    assert_string_equal(action_of(find(profile, "capset")), "SCMP_ACT_ALLOW");
    assert_string_equal(action_of(find(profile, "mount")), "SCMP_ACT_ERRNO");
    assert_string_equal(action_of(find(profile, "ptrace")), "SCMP_ACT_TRACE");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unknown_calls_get_enosys),
        cmocka_unit_test(every_rule_of_the_policy_is_there),
        cmocka_unit_test(sandbox_init_may_do_what_it_needs),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
