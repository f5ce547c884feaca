/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/graph/tries.h"

#include "common/log.h"
#include "orchestrator/graph/call.h"
#include "orchestrator/graph/run.h"

#include <sys/random.h>

#define CAUSE(name) CRISOL__AGENT__V1__FAILURE_CAUSE__FAILURE_CAUSE_##name
#define VERDICT(name) CRISOL__SANDBOX__V1__VERDICT_CODE__VERDICT_CODE_##name

#define WAIT_MAX_MS 10000

static enum agt_fault fault_of_status(enum rpc_code code, int32_t retry_after_ms)
{
    switch (code) {
    case RPC_OK:
        return AGT_FAULT_NONE;
    case RPC_RESOURCE_EXHAUSTED:
        return AGT_FAULT_BUSY;
    case RPC_UNAVAILABLE:
        /* One that ends or starts anew says when to come again: that may take as long as the runs
         * which it lets finish. */
        return retry_after_ms > 0 ? AGT_FAULT_BUSY : AGT_FAULT_FAILED;
    case RPC_INVALID_ARGUMENT:
    case RPC_NOT_FOUND:
    case RPC_PERMISSION_DENIED:
    case RPC_FAILED_PRECONDITION:
    case RPC_OUT_OF_RANGE:
    case RPC_UNIMPLEMENTED:
    case RPC_UNAUTHENTICATED:
        return AGT_FAULT_REFUSED;
    default:
        return AGT_FAULT_FAILED;
    }
}

enum agt_fault agt_fault_of_call(const struct agt_call *call, const char **ret_message)
{
    enum agt_fault fault = fault_of_status(call->status.code, call->status.retry_after_ms);
    const Crisol__Sandbox__V1__Verdict *verdict;

    *ret_message = call->status.message ? call->status.message : rpc_code_name(call->status.code);
    if (fault != AGT_FAULT_NONE)
        return fault;
    verdict = call->result ? call->result->verdict : NULL;
    *ret_message = verdict && verdict->message[0] ? verdict->message : "it gave no verdict";
    if (!verdict || verdict->code == VERDICT(SANDBOX_ERROR) ||
        verdict->code == VERDICT(SANDBOX_LOST))
        return AGT_FAULT_FAILED;
    return verdict->code == VERDICT(CANCELLED) ? AGT_FAULT_FOREIGN : AGT_FAULT_NONE;
}

/* So that runs that were turned away together do not come back together. */
static int64_t spread(int64_t most_ms)
{
    uint32_t number = 0;

    (void)!getrandom(&number, sizeof(number), 0);
    return most_ms > 0 ? number % most_ms : 0;
}

static int64_t wait_ms(const struct agt_run *run, uint32_t tries, int32_t retry_after_ms)
{
    int64_t wait = agt_engine_options(run->engine)->retry_base_ms;

    for (uint32_t i = 1; i < tries && wait < WAIT_MAX_MS; i++)
        wait *= 2;
    if (retry_after_ms > wait)
        wait = retry_after_ms;
    if (wait > WAIT_MAX_MS)
        wait = WAIT_MAX_MS;
    return wait + spread(wait / 2);
}

int64_t agt_fault_wait_ms(struct agt_run *run, struct agt_tries *tries, enum agt_fault fault,
                          int32_t retry_after_ms, const char *message)
{
    bool is_busy = fault == AGT_FAULT_BUSY;
    uint32_t count = is_busy ? ++tries->busy : ++tries->failed;
    int64_t wait;

    if (fault == AGT_FAULT_FOREIGN) {
        agt_run_fail(run, CAUSE(SANDBOX_UNAVAILABLE),
                     "The sandbox run was cancelled by somebody else.");
        return -1;
    }
    if (fault == AGT_FAULT_REFUSED ||
        count > (is_busy ? AGT_SANDBOX_WAITS_MAX - 1 : agt_node_policy(run->node)->retries)) {
        agt_run_fail(run, CAUSE(SANDBOX_UNAVAILABLE), "%s: %s",
                     fault == AGT_FAULT_REFUSED ? "sandboxd refused the run"
                     : is_busy                  ? "sandboxd stayed busy"
                                                : "The sandbox could not be used",
                     message);
        return -1;
    }
    wait = wait_ms(run, count, retry_after_ms);
    if (!is_busy)
        agt_list_add(&run->warnings, "The sandbox failed and was tried again: %s", message);
    /* Being busy is no fault, and there may be many waits. */
    cr_log_write(is_busy ? CR_LOG_DEBUG : CR_LOG_WARN,
                 "sandbox try failed run=%s try=%u wait_ms=%lld reason=%s", run->id, count,
                 (long long)wait, message);
    return wait;
}
