/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/bench/callers.h"

#include "common/clock.h"
#include "common/err.h"
#include "rpc/status.h"
#include "tests/bench/question.h"

#include <inttypes.h>
#include <stdio.h>

static int start_call(struct bench_caller *caller);

static bool on_message(void *user, const ProtobufCMessage *message)
{
    struct bench_caller *caller = user;

    bench_answer_take(&caller->answer, message);
    return true;
}

static void judge(struct bench_caller *caller, const struct rpc_status *status)
{
    struct bench_callers *all = caller->all;
    const struct bench_answer *answer = &caller->answer;

    if (status->code == RPC_CANCELLED && atomic_load(&all->must_stop))
        return;
    if (status->code == RPC_RESOURCE_EXHAUSTED) {
        all->refused++;
    } else if (status->code != RPC_OK ||
               (all->question && !bench_answer_is_right(answer, all->question))) {
        if (all->wrong++ == 0)
            (void)fprintf(stderr, "bench: a call ended with %s: %s, verdict %" PRIu32 "\n%s\n",
                          rpc_code_name(status->code), status->message, answer->verdict,
                          answer->output);
    } else {
        all->done++;
        all->samples.pool_hits += answer->is_pool_hit;
        bench_samples_add(&all->samples, answer->result_ns - answer->sent_ns);
    }
}

static void on_end(void *user, const struct rpc_status *status)
{
    struct bench_caller *caller = user;

    judge(caller, status);
    if (!atomic_load(&caller->all->must_stop) && caller->all->wrong == 0 && start_call(caller) < 0)
        caller->all->wrong++;
}

static int start_call(struct bench_caller *caller)
{
    const struct rpc_client_handlers handlers = {
        .on_message = on_message, .on_end = on_end, .user = caller};
    struct rpc_client_call *call = NULL;
    int r;

    caller->answer = (struct bench_answer){.sent_ns = cr_clock_mono_ns()};
    r = rpc_client_start(caller->all->loop, caller->all->channel, &bench_method_execute,
                         &caller->request->base, BENCH_CALL_MS, &handlers, &call, NULL);
    if (r == 0)
        (void)rpc_client_unref(call);
    return r;
}

int bench_callers_start(struct bench_callers *callers,
                        const Crisol__Sandbox__V1__ExecuteRequest *const *requests,
                        size_t request_count, uint32_t count)
{
    struct cr_err err = CR_ERR_INIT;
    int r = rpc_loop_new(&callers->loop, &err);

    if (r < 0)
        return r;
    atomic_store(&callers->must_stop, false);
    for (uint32_t i = 0; r == 0 && i < count; i++) {
        callers->list[i] =
            (struct bench_caller){.all = callers, .request = requests[i % request_count]};
        r = start_call(&callers->list[i]);
    }
    return r;
}

void bench_callers_stop(struct bench_callers *callers)
{
    atomic_store(&callers->must_stop, true);
    callers->loop = rpc_loop_free(callers->loop);
}
