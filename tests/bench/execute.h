/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "crisol/sandbox/v1/sandbox.pb-c.h"
#include "rpc/client.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rpc_status;
struct bench_question;

#define BENCH_OUTPUT_MAX 4096
#define BENCH_CALL_MS 60000

extern const struct rpc_client_method bench_method_execute;
extern const struct rpc_client_method bench_method_capabilities;

/* Of the service's own account of a run. */
enum bench_stage {
    BENCH_STAGE_QUEUE,
    BENCH_STAGE_PREPARE,
    BENCH_STAGE_RUN,
    BENCH_STAGE_KILL,
    BENCH_STAGE_COUNT,
};

/* What came back over one Execute call. */
struct bench_answer {
    int64_t sent_ns;
    int64_t started_ns;      /* `started` came; 0: not */
    int64_t first_output_ns; /* 0: none */
    int64_t result_ns;       /* `result` came; 0: not */
    uint32_t verdict;        /* enum VerdictCode */
    int32_t exit_code;
    bool is_pool_hit;
    uint32_t start_mode; /* enum StartMode */
    uint64_t stage_us[BENCH_STAGE_COUNT];
    uint64_t wall_us;
    uint64_t cpu_us;
    uint64_t output_bytes;         /* of standard output */
    char output[BENCH_OUTPUT_MAX]; /* its beginning */
};

/* Takes one message of the stream. */
void bench_answer_take(struct bench_answer *answer, const ProtobufCMessage *message);

/* True for verdict OK and the right output. */
bool bench_answer_is_right(const struct bench_answer *answer,
                           const struct bench_question *question);

/* One call from request to result. Returns 0, or -EIO after a line on stderr. */
int bench_execute(struct rpc_channel *channel, const Crisol__Sandbox__V1__ExecuteRequest *request,
                  struct bench_answer *ret_answer);

/* As bench_execute(), and -EPROTO after a line on stderr when the answer is not right. */
int bench_ask(struct rpc_channel *channel, const struct bench_question *question,
              const Crisol__Sandbox__V1__ExecuteRequest *request, struct bench_answer *ret_answer);

/* A call that runs nothing. Returns 0 or -EIO. */
int bench_call_nothing(struct rpc_channel *channel);

/* True when every slot of the pool waits, or there is no pool. */
bool bench_is_pool_full(struct rpc_channel *channel);

/* A channel that is connected. Returns 0 or -errno, with a line on stderr. */
int bench_connect(const char *address, struct rpc_channel **ret_channel);
