/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/docker/seccomp_json.h"

#include "common/auto.h"
#include "common/buf.h"
#include "common/err.h"
#include "sandboxd/backend/seccomp_policy.h"
#include "sandboxd/docker/json.h"

#include <errno.h>
#include <stdbool.h>

#include <seccomp.h>

#include <linux/seccomp.h>
#include <sys/syscall.h>

#if defined(__x86_64__)
#define ARCHITECTURE "SCMP_ARCH_X86_64"
#elif defined(__aarch64__)
#define ARCHITECTURE "SCMP_ARCH_AARCH64"
#else
#error "no system call policy for this architecture"
#endif

/* What the profile answers to the calls of one rule. */
static uint32_t outer_answer(const struct sbx_seccomp_rule *rule)
{
    /* sandbox-init gives up capabilities, of which it has none, and sets the exact filter. */
    if (rule->filter || rule->number == __NR_seccomp || rule->number == __NR_capset)
        return SECCOMP_RET_ALLOW;
    /* Not to be executed here either, but the exact filter comes first: a kill, or an errno, would
     * go before its listener, which tells the call by name. Without a tracer, which nobody can be,
     * it is ENOSYS. */
    return rule->answer == SECCOMP_RET_KILL_PROCESS ? SECCOMP_RET_TRACE : rule->answer;
}

static bool add_action(cJSON *group, uint32_t answer)
{
    switch (answer & SECCOMP_RET_ACTION_FULL) {
    case SECCOMP_RET_ALLOW:
        return cJSON_AddStringToObject(group, "action", "SCMP_ACT_ALLOW") != NULL;
    case SECCOMP_RET_TRACE:
        return cJSON_AddStringToObject(group, "action", "SCMP_ACT_TRACE") != NULL;
    default:
        return cJSON_AddStringToObject(group, "action", "SCMP_ACT_ERRNO") != NULL &&
               cJSON_AddNumberToObject(group, "errnoRet", answer & SECCOMP_RET_DATA) != NULL;
    }
}

/* A call without a name is newer than libseccomp: nothing can be said about it, and the default
 * is ENOSYS. */
static bool add_name(cJSON *names, uint32_t number)
{
    CR_AUTO_FREE char *name = seccomp_syscall_resolve_num_arch(SCMP_ARCH_NATIVE, (int)number);

    return !name || cJSON_AddItemToArray(names, cJSON_CreateString(name));
}

/* All calls that get the answer of the rule `first`, unless an earlier rule had it. */
static bool add_group(cJSON *groups, const struct sbx_seccomp_rule *policy, size_t count,
                      size_t first)
{
    uint32_t answer = outer_answer(&policy[first]);
    cJSON *group;
    cJSON *names;

    for (size_t i = 0; i < first; i++) {
        if (outer_answer(&policy[i]) == answer)
            return true;
    }
    group = cJSON_CreateObject();
    if (!cJSON_AddItemToArray(groups, group))
        return false;
    names = cJSON_AddArrayToObject(group, "names");
    if (!names || !add_action(group, answer))
        return false;
    for (size_t i = first; i < count; i++) {
        if (outer_answer(&policy[i]) == answer && !add_name(names, policy[i].number))
            return false;
    }
    return true;
}

static bool fill(cJSON *profile)
{
    size_t count;
    const struct sbx_seccomp_rule *policy = sbx_seccomp_policy(&count);
    cJSON *architectures = cJSON_AddArrayToObject(profile, "architectures");
    cJSON *groups = cJSON_AddArrayToObject(profile, "syscalls");
    bool is_good = cJSON_AddStringToObject(profile, "defaultAction", "SCMP_ACT_ERRNO") &&
                   cJSON_AddNumberToObject(profile, "defaultErrnoRet", ENOSYS) &&
                   cJSON_AddItemToArray(architectures, cJSON_CreateString(ARCHITECTURE));

    for (size_t i = 0; is_good && i < count; i++)
        is_good = add_group(groups, policy, count, i);
    return is_good;
}

int sbx_seccomp_json(struct cr_buf *ret_json, struct cr_err *err)
{
    CR_AUTO_JSON cJSON *profile = cJSON_CreateObject();
    CR_AUTO_FREE char *text = profile && fill(profile) ? cJSON_PrintUnformatted(profile) : NULL;

    if (!text || cr_buf_add_str(ret_json, text) < 0)
        return cr_err_set(err, ENOMEM, "out of memory for the system call profile");
    return 0;
}
