/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/front/sandbox_request.h"

#include "common/unconst.h"
#include "rpc/status.h"
#include "sandboxd/front/limits.h"
#include "sandboxd/front/sandboxes.h"
#include "sandboxd/runtimes/table.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define IDLE_DEFAULT_MS 300000U
#define TIME_MIN_MS 1000U
#define BIT(limit) (UINT32_C(1) << (limit))
/* What a call may set; the rest is the sandbox's. */
#define OF_CALL (BIT(SBX_LIMIT_WALL_TIME) | BIT(SBX_LIMIT_CPU_TIME) | BIT(SBX_LIMIT_OUTPUT))

static void check_time(const char *field, uint32_t value_ms, uint32_t maximum_ms,
                       struct rpc_status *status)
{
    if (value_ms < TIME_MIN_MS)
        rpc_status_add_violation(status, field, "%" PRIu32 " is less than the minimum of %u",
                                 value_ms, TIME_MIN_MS);
    else if (value_ms > maximum_ms)
        rpc_status_add_violation(status, field, "%" PRIu32 " is more than the maximum of %" PRIu32,
                                 value_ms, maximum_ms);
}

int sbx_sandbox_check_create(const Crisol__Sandbox__V1__CreateSandboxRequest *message,
                             const struct sbx_msg_hello *hello, struct sbx_sandbox_plan *ret_plan,
                             struct rpc_status *status)
{
    const struct sbx_request_rules rules = {.maximum = hello->maximum, .runtimes = hello->runtimes};
    struct sbx_sandbox_plan plan = {.caller = ""};
    const struct sbx_runtime *runtime;
    size_t count;

    if (hello->sessions == 0) {
        rpc_status_set(status, RPC_UNIMPLEMENTED,
                       "sandboxes that live over several calls are not offered by this service: it "
                       "has --sandboxes=0, or a docker engine whose containers it cannot look into "
                       "(--docker-evidence=inside, runsc, an engine elsewhere). Execute runs one "
                       "program, with the files that it needs");
        return -EINVAL;
    }
    if (sbx_request_find_runtime(message->runtime, &rules, &plan.runtime, status) < 0)
        return -EINVAL;
    runtime = &sbx_runtimes(&count)[plan.runtime];
    if (runtime->compile[0]) {
        rpc_status_set(status, RPC_UNIMPLEMENTED,
                       "runtime: '%s' has a compile stage, which sandboxes that live on do not "
                       "have; Execute does",
                       runtime->name);
        return -EINVAL;
    }
    sbx_limits_read(message->limits, &hello->maximum, runtime, &plan.limits, &plan.requested,
                    status);
    plan.life_ms = message->life_time_ms ? message->life_time_ms : hello->session_life_ms;
    check_time("life_time_ms", plan.life_ms, hello->session_life_ms, status);
    plan.idle_ms = message->idle_time_ms ? message->idle_time_ms : IDLE_DEFAULT_MS;
    if (message->idle_time_ms == 0 && plan.idle_ms > plan.life_ms)
        plan.idle_ms = plan.life_ms;
    check_time("idle_time_ms", plan.idle_ms, plan.life_ms, status);
    if (status->code != RPC_OK)
        return -EINVAL;
    *ret_plan = plan;
    return 0;
}

static void check_limits(const Crisol__Sandbox__V1__ExecuteRequest *message, uint32_t requested,
                         struct rpc_status *status)
{
    char field[64];

    for (uint32_t i = 0; i < SBX_LIMIT_COUNT; i++) {
        if (!(requested & BIT(i) & ~OF_CALL))
            continue;
        (void)snprintf(field, sizeof(field), "limits.%s", sbx_limit_name(i));
        rpc_status_add_violation(status, field, "is the sandbox's own: set it with CreateSandbox");
    }
    for (size_t i = 0; i < message->n_files && i < SBX_FILES_MAX; i++) {
        if (!message->files[i]->read_only)
            continue;
        (void)snprintf(field, sizeof(field), "files[%zu].read_only", i);
        rpc_status_add_violation(status, field, "is not for a sandbox that lives on");
    }
}

/* The request with what the sandbox says where it says nothing itself. */
static int check_as_own(const Crisol__Sandbox__V1__ExecuteRequest *message,
                        const struct sbx_request_rules *rules, const struct sbx_sandbox *sandbox,
                        struct sbx_request *ret_request, struct rpc_status *status)
{
    struct sbx_request_rules own = *rules;
    struct rpc_status unused = RPC_STATUS_INIT;
    Crisol__Sandbox__V1__Limits limits = CRISOL__SANDBOX__V1__LIMITS__INIT;
    Crisol__Sandbox__V1__ExecuteRequest copy = *message;
    struct sbx_limits merged;
    uint32_t requested;
    size_t count;
    const char *name = sbx_runtimes(&count)[sandbox->runtime].name;
    int r;

    if (*message->runtime && strcmp(message->runtime, name) != 0)
        rpc_status_add_violation(status, "runtime", "is that of the sandbox, '%s'; leave it out",
                                 name);
    sbx_limits_read(message->limits, &sandbox->limits, NULL, &merged, &requested, &unused);
    check_limits(message, requested, status);
    for (uint32_t i = 0; i < SBX_LIMIT_COUNT; i++) {
        if (!(requested & BIT(i) & OF_CALL))
            merged.value[i] = sandbox->limits.value[i];
    }
    sbx_limits_write(&merged, &limits);
    copy.runtime = cr_unconst(name);
    copy.limits = &limits;
    own.maximum = sandbox->limits;
    r = sbx_request_check(&copy, &own, ret_request, status);
    if (r == 0) {
        ret_request->requested = sandbox->requested | requested;
        ret_request->session = sandbox->number;
    }
    return r;
}

int sbx_request_check_in(const Crisol__Sandbox__V1__ExecuteRequest *message,
                         const struct sbx_request_rules *rules, const struct sbx_sandbox *sandbox,
                         struct sbx_request *ret_request, struct rpc_status *status)
{
    if (check_as_own(message, rules, sandbox, ret_request, status) < 0) {
        sbx_request_name_part(status, "request");
        return -EINVAL;
    }
    if (sbx_request_runtime(ret_request)->cells && *message->code && message->n_args == 0 &&
        message->n_env == 0)
        ret_request->flags |= SBX_RUN_HAS_CELL;
    return 0;
}

int sbx_request_check_files(const Crisol__Sandbox__V1__ExecuteRequest *message,
                            const struct sbx_request_rules *rules,
                            const struct sbx_sandbox *sandbox, struct sbx_request *ret_request,
                            struct rpc_status *status)
{
    struct sbx_request_rules own = *rules;

    own.is_files_only = true;
    if (check_as_own(message, &own, sandbox, ret_request, status) < 0)
        return -EINVAL;
    ret_request->flags = SBX_RUN_NO_PROGRAM;
    return 0;
}
