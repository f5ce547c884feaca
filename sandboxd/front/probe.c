/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/front/probe.h"

#include "common/auto.h"
#include "common/buf.h"
#include "common/clock.h"
#include "common/patience.h"
#include "common/turns.h"
#include "common/unconst.h"
#include "sandboxd/front/backend.h"
#include "sandboxd/front/execution.h"
#include "sandboxd/front/limits.h"
#include "sandboxd/runtimes/table.h"

#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sys/eventfd.h>

#define ARGV_MAX 8U
#define PROBE_WALL_MS 8000U

/*
 * The bell that the stream thread rings. It outlives an execution that was
 * given up, so it is on the heap and whoever lets go last frees it.
 */
struct bell {
    int fd;
    atomic_uint refs;
};

static void unref_bell(void *user)
{
    struct bell *bell = user;

    if (atomic_fetch_sub(&bell->refs, 1) != 1)
        return;
    (void)close(bell->fd);
    free(bell);
}

static void ring(void *user)
{
    const struct bell *bell = user;
    const uint64_t one = 1;

    (void)!write(bell->fd, &one, sizeof(one));
}

static struct bell *new_bell(void)
{
    struct bell *bell = calloc(1, sizeof(*bell));

    if (!bell)
        return NULL;
    bell->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (bell->fd < 0) {
        free(bell);
        return NULL;
    }
    atomic_init(&bell->refs, 2); /* ours and the waker's */
    return bell;
}

/* Waits for the next ring. Returns false at the deadline. */
static bool wait_bell(const struct bell *bell, const struct sbx_probe_wait *wait,
                      int64_t deadline_ns)
{
    struct pollfd poll_fd = {.fd = bell->fd, .events = POLLIN};
    uint64_t count;

    for (;;) {
        int64_t left_ms = (deadline_ns - cr_clock_mono_ns()) / CR_NS_PER_MS;
        int n = left_ms > 0 ? poll(&poll_fd, 1, cr_turn_ms((int)left_ms)) : 0;

        if (wait->on_turn)
            wait->on_turn(wait->user);
        if (n == 0 && left_ms <= 0)
            return false;
        if (n > 0) {
            (void)!read(bell->fd, &count, sizeof(count));
            return true;
        }
    }
}

static void fill_probe(struct sbx_probe *probe, const struct sbx_execution *execution,
                       const struct cr_buf *output)
{
    const struct sbx_outcome *outcome = sbx_execution_outcome(execution);

    *probe = (struct sbx_probe){
        .is_ok = outcome->refusal == RPC_OK && outcome->result.verdict == SBX_VERDICT_OK,
        .gave_way = outcome->refusal != RPC_OK ||
                    outcome->result.verdict == SBX_VERDICT_CANCELLED ||
                    outcome->result.verdict == SBX_VERDICT_SANDBOX_LOST,
        .verdict = sbx_verdict_name(outcome->result.verdict),
        .stage = sbx_stage_name(outcome->result.stage),
        .stage_errno = outcome->result.stage_errno,
        .refusal = outcome->refusal,
    };
    (void)snprintf(probe->output, sizeof(probe->output), "%.*s",
                   (int)strcspn(cr_buf_str(output), "\r\n"), cr_buf_str(output));
}

/* Takes events until the end. Returns 0 or -ETIMEDOUT. */
static int wait_end(struct sbx_execution *execution, const struct bell *bell,
                    const struct sbx_probe_wait *wait, struct sbx_probe *ret_probe)
{
    int64_t deadline_ns = cr_clock_mono_ns() + wait->deadline_ms * CR_NS_PER_MS;
    CR_AUTO_BUF struct cr_buf chunk;
    CR_AUTO_BUF struct cr_buf output;

    cr_buf_init(&chunk, SBX_CHUNK_MAX);
    cr_buf_init(&output, SBX_CHUNK_MAX);
    for (;;) {
        struct sbx_event event = sbx_execution_take(execution, &chunk);

        if (event.type == SBX_EVENT_ENDED) {
            fill_probe(ret_probe, execution, &output);
            return 0;
        }
        if (event.type == SBX_EVENT_DATA && event.stream == 1)
            (void)cr_buf_add(&output, chunk.data, chunk.size); /* the first line is enough */
        cr_buf_clear(&chunk);
        if (event.type == SBX_EVENT_NONE && !wait_bell(bell, wait, deadline_ns))
            return -ETIMEDOUT;
    }
}

static void fill_request(const struct sbx_limits *maximum, uint32_t runtime,
                         struct sbx_request *request)
{
    const uint64_t wall_ms = (uint64_t)cr_patience_ms(PROBE_WALL_MS);
    const uint64_t most_ms = maximum->value[SBX_LIMIT_WALL_TIME];

    *request = (struct sbx_request){
        .runtime = runtime,
        .on_overflow = CRISOL__SANDBOX__V1__OVERFLOW_POLICY__OVERFLOW_POLICY_TRUNCATE,
        .as_text = true,
    };
    sbx_limits_default(maximum, sbx_request_runtime(request), &request->limits);
    request->limits.value[SBX_LIMIT_WALL_TIME] = wall_ms < most_ms ? wall_ms : most_ms;
}

int sbx_probe_run(struct sbx_backend *backend, uint32_t runtime, const char *const *argv,
                  bool gives_way, const struct sbx_probe_wait *wait, struct sbx_probe *ret_probe)
{
    Crisol__Sandbox__V1__ExecuteRequest message = CRISOL__SANDBOX__V1__EXECUTE_REQUEST__INIT;
    struct sbx_execution *execution = NULL;
    char *command[ARGV_MAX];
    struct sbx_request request;
    struct sbx_msg_hello hello;
    struct sbx_waker waker;
    struct bell *bell;
    int r;

    if (!sbx_backend_hello(backend, &hello))
        return -ENOTCONN;
    while (argv[message.n_command] && message.n_command < ARGV_MAX) {
        command[message.n_command] = cr_unconst(argv[message.n_command]);
        message.n_command++;
    }
    message.command = command;
    fill_request(&hello.maximum, runtime, &request);
    bell = new_bell();
    if (!bell)
        return -ENOMEM;
    waker = (struct sbx_waker){ring, unref_bell, bell};
    r = sbx_execution_new(&message, &request, SBX_CALLER_SELF, &waker, &execution, NULL);
    if (r < 0) {
        unref_bell(bell);
        unref_bell(bell);
        return r;
    }
    if (gives_way)
        sbx_execution_give_way(execution);
    sbx_execution_submit(execution, backend);
    r = wait_end(execution, bell, wait, ret_probe);
    if (r < 0)
        sbx_execution_cancel(execution, true);
    sbx_execution_unref(execution);
    unref_bell(bell);
    return r;
}
