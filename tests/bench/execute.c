/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/bench/execute.h"

#include "common/clock.h"
#include "common/err.h"
#include "rpc/status.h"
#include "tests/bench/question.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define CONNECT_MS 10000

const struct rpc_client_method bench_method_execute = {
    "/crisol.sandbox.v1.SandboxService/Execute",
    &crisol__sandbox__v1__execute_request__descriptor,
    &crisol__sandbox__v1__execute_response__descriptor,
};

const struct rpc_client_method bench_method_capabilities = {
    "/crisol.sandbox.v1.SandboxService/GetCapabilities",
    &crisol__sandbox__v1__get_capabilities_request__descriptor,
    &crisol__sandbox__v1__get_capabilities_response__descriptor,
};

static void take_output(struct bench_answer *answer, const Crisol__Sandbox__V1__Output *output)
{
    size_t room = sizeof(answer->output) - 1;
    size_t have = answer->output_bytes < room ? (size_t)answer->output_bytes : room;
    size_t size = output->data.len < room - have ? output->data.len : room - have;

    if (answer->first_output_ns == 0)
        answer->first_output_ns = cr_clock_mono_ns();
    if (output->stream != CRISOL__SANDBOX__V1__OUTPUT_STREAM__OUTPUT_STREAM_STDOUT)
        return;
    if (size > 0)
        memcpy(answer->output + have, output->data.data, size);
    answer->output_bytes += output->data.len;
}

static void take_result(struct bench_answer *answer,
                        const Crisol__Sandbox__V1__ExecuteResult *result)
{
    answer->result_ns = cr_clock_mono_ns();
    answer->exit_code = result->exit_code;
    if (result->verdict)
        answer->verdict = (uint32_t)result->verdict->code;
    if (result->timing) {
        answer->is_pool_hit = result->timing->is_pool_hit;
        answer->start_mode = (uint32_t)result->timing->start_mode;
        answer->stage_us[BENCH_STAGE_QUEUE] = result->timing->queue_us;
        answer->stage_us[BENCH_STAGE_PREPARE] = result->timing->prepare_us;
        answer->stage_us[BENCH_STAGE_RUN] = result->timing->run_us;
        answer->stage_us[BENCH_STAGE_KILL] = result->timing->kill_us;
    }
    if (result->usage) {
        answer->wall_us = result->usage->wall_us;
        answer->cpu_us = result->usage->cpu_total_us;
    }
}

void bench_answer_take(struct bench_answer *answer, const ProtobufCMessage *message)
{
    const Crisol__Sandbox__V1__ExecuteResponse *response = (const void *)message;

    switch (response->event_case) {
    case CRISOL__SANDBOX__V1__EXECUTE_RESPONSE__EVENT_STARTED:
        answer->started_ns = cr_clock_mono_ns();
        break;
    case CRISOL__SANDBOX__V1__EXECUTE_RESPONSE__EVENT_OUTPUT:
        take_output(answer, response->output);
        break;
    case CRISOL__SANDBOX__V1__EXECUTE_RESPONSE__EVENT_RESULT:
        take_result(answer, response->result);
        break;
    default:
        break;
    }
}

bool bench_answer_is_right(const struct bench_answer *answer, const struct bench_question *question)
{
    size_t size = answer->output_bytes < sizeof(answer->output) ? (size_t)answer->output_bytes
                                                                : sizeof(answer->output) - 1;

    return answer->verdict == CRISOL__SANDBOX__V1__VERDICT_CODE__VERDICT_CODE_OK &&
           answer->exit_code == 0 && bench_question_is_right(question, answer->output, size);
}

static bool on_message(void *user, const ProtobufCMessage *message)
{
    bench_answer_take(user, message);
    return true;
}

int bench_execute(struct rpc_channel *channel, const Crisol__Sandbox__V1__ExecuteRequest *request,
                  struct bench_answer *ret_answer)
{
    struct rpc_status status = RPC_STATUS_INIT;

    *ret_answer = (struct bench_answer){.sent_ns = cr_clock_mono_ns()};
    if (rpc_stream_blocking(channel, &bench_method_execute, &request->base, BENCH_CALL_MS, -1,
                            on_message, ret_answer, &status) == RPC_OK)
        return 0;
    (void)fprintf(stderr, "bench: Execute ended with %s: %s\n", rpc_code_name(status.code),
                  status.message);
    return -EIO;
}

int bench_ask(struct rpc_channel *channel, const struct bench_question *question,
              const Crisol__Sandbox__V1__ExecuteRequest *request, struct bench_answer *ret_answer)
{
    int r = bench_execute(channel, request, ret_answer);

    if (r < 0 || bench_answer_is_right(ret_answer, question))
        return r;
    (void)fprintf(stderr, "bench: '%s' in a sandbox ended with verdict %" PRIu32 ", exit %d:\n%s\n",
                  question->name, ret_answer->verdict, ret_answer->exit_code, ret_answer->output);
    return -EPROTO;
}

static bool get_capabilities(struct rpc_channel *channel, ProtobufCMessage **ret_message)
{
    Crisol__Sandbox__V1__GetCapabilitiesRequest request =
        CRISOL__SANDBOX__V1__GET_CAPABILITIES_REQUEST__INIT;
    struct rpc_status status = RPC_STATUS_INIT;

    return rpc_call_blocking(channel, &bench_method_capabilities, &request.base, BENCH_CALL_MS,
                             ret_message, &status) == RPC_OK;
}

int bench_call_nothing(struct rpc_channel *channel)
{
    ProtobufCMessage *base = NULL;
    bool is_answered = get_capabilities(channel, &base);

    rpc_message_free(base);
    return is_answered ? 0 : -EIO;
}

bool bench_is_pool_full(struct rpc_channel *channel)
{
    const Crisol__Sandbox__V1__Pool *pool = NULL;
    ProtobufCMessage *base = NULL;
    bool result;

    if (get_capabilities(channel, &base))
        pool = ((const Crisol__Sandbox__V1__GetCapabilitiesResponse *)(void *)base)->pool;
    result = pool && pool->ready == pool->slots;
    rpc_message_free(base);
    return result;
}

int bench_connect(const char *address, struct rpc_channel **ret_channel)
{
    const struct rpc_channel_options options = {.target = address};
    struct cr_err err = CR_ERR_INIT;
    int r = rpc_channel_new(&options, ret_channel, &err);

    if (r < 0) {
        (void)fprintf(stderr, "bench: %s\n", err.text);
        return r;
    }
    r = rpc_channel_wait_ready(*ret_channel, CONNECT_MS);
    if (r < 0)
        (void)fprintf(stderr, "bench: nobody serves on '%s'\n", address);
    return r;
}
