/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/front/execution.h"

#include "common/auto.h"
#include "common/err.h"
#include "common/trace.h"
#include "sandboxd/front/backend.h"
#include "sandboxd/front/compiled.h"
#include "sandboxd/front/payload_build.h"
#include "sandboxd/front/run.h"
#include "sandboxd/runtimes/table.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sys/random.h>

/* Collected files together, so that a result fits the 4 MiB that gRPC clients take by default. */
#define COLLECT_TOTAL_MAX (3U << 20)

_Static_assert((int)SBX_OVERFLOW_KILL ==
                       (int)CRISOL__SANDBOX__V1__OVERFLOW_POLICY__OVERFLOW_POLICY_KILL - 1 &&
                   (int)SBX_OVERFLOW_HEAD_TAIL ==
                       (int)CRISOL__SANDBOX__V1__OVERFLOW_POLICY__OVERFLOW_POLICY_HEAD_TAIL - 1,
               "the policies count alike");

static void free_execution(struct sbx_execution *execution)
{
    for (size_t i = 0; i < SBX_RUN_FDS; i++)
        cr_close_fd(&execution->child_fds[i]);
    for (size_t i = 0; i < SBX_SOURCE_COUNT; i++)
        cr_close_fd(&execution->sources[i].fd);
    (void)sbx_sandbox_leave(execution->sandbox); /* it was never submitted */
    sbx_collector_done(&execution->collector);
    sbx_output_done(&execution->outputs[0]);
    sbx_output_done(&execution->outputs[1]);
    cr_buf_done(&execution->payload);
    cr_buf_done(&execution->input);
    (void)pthread_mutex_destroy(&execution->lock);
    free(execution->stdin_data);
    free(execution);
}

struct sbx_execution *sbx_execution_ref(struct sbx_execution *execution)
{
    atomic_fetch_add(&execution->refs, 1);
    return execution;
}

struct sbx_execution *sbx_execution_unref(struct sbx_execution *execution)
{
    if (execution && atomic_fetch_sub(&execution->refs, 1) == 1)
        free_execution(execution);
    return NULL;
}

static int draw_id(char id[SBX_EXECUTION_ID_SIZE], struct cr_err *err)
{
    uint8_t bytes[(SBX_EXECUTION_ID_SIZE - 1) / 2];

    if (getrandom(bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes))
        return cr_err_sys(err, errno, "draw an execution id");
    for (size_t i = 0; i < sizeof(bytes); i++)
        (void)snprintf(id + 2 * i, 3, "%02x", bytes[i]);
    return 0;
}

static struct sbx_execution *alloc_execution(void)
{
    struct sbx_execution *execution = calloc(1, sizeof(*execution));

    if (!execution)
        return NULL;
    atomic_init(&execution->refs, 1);
    execution->mail.execution = execution;
    (void)pthread_mutex_init(&execution->lock, NULL); /* cannot fail with default attributes */
    for (size_t i = 0; i < SBX_RUN_FDS; i++)
        execution->child_fds[i] = -1;
    for (size_t i = 0; i < SBX_SOURCE_COUNT; i++)
        execution->sources[i] =
            (struct sbx_source){.kind = (enum sbx_source_kind)i, .execution = execution, .fd = -1};
    execution->tell_ns = INT64_MAX;
    return execution;
}

static int copy_stdin(struct sbx_execution *execution,
                      const Crisol__Sandbox__V1__ExecuteRequest *message)
{
    ProtobufCBinaryData input = sbx_request_stdin(message);

    if (input.len == 0 || execution->request.phase == SBX_PHASE_COMPILE)
        return 0;
    execution->stdin_data = malloc(input.len);
    if (!execution->stdin_data)
        return -ENOMEM;
    memcpy(execution->stdin_data, input.data, input.len);
    execution->stdin_size = input.len;
    return 0;
}

/* As the payload says it, see add_compile_output() there. */
static int copy_compile_output(struct sbx_execution *execution)
{
    const struct sbx_runtime *runtime = sbx_request_runtime(&execution->request);
    struct sbx_collector *collector = &execution->collector;
    size_t count = 0;

    while (runtime->compile_output[count])
        count++;
    if (sbx_collector_init(collector, count, SBX_COMPILED_BYTES_MAX) < 0)
        return -ENOMEM;
    for (size_t i = 0; i < count; i++) {
        collector->files[i].max_bytes = SBX_COMPILED_BYTES_MAX;
        collector->files[i].max_files = sbx_compile_max_files(runtime);
        collector->files[i].is_required = true;
        collector->files[i].path = strdup(runtime->compile_output[i]);
        if (!collector->files[i].path)
            return -ENOMEM;
    }
    return 0;
}

static int copy_collect(struct sbx_execution *execution,
                        const Crisol__Sandbox__V1__ExecuteRequest *message)
{
    struct sbx_collector *collector = &execution->collector;
    size_t count = message->n_collect;
    size_t room = COLLECT_TOTAL_MAX;

    if (execution->request.phase == SBX_PHASE_COMPILE)
        return copy_compile_output(execution);
    execution->wants_report = sbx_request_wants_report(message, &execution->request);
    if (execution->wants_report)
        room += SBX_REPORT_BYTES_MAX;
    if (sbx_collector_init(collector, count + (execution->wants_report ? 1 : 0), room) < 0)
        return -ENOMEM;
    if (execution->wants_report)
        collector->files[count].max_bytes = SBX_REPORT_BYTES_MAX;
    for (size_t i = 0; i < count; i++) {
        const Crisol__Sandbox__V1__CollectSpec *spec = message->collect[i];
        struct sbx_collected *file = &collector->files[i];

        file->max_bytes = sbx_collect_max_bytes(spec);
        file->max_files = sbx_collect_max_files(spec);
        file->is_required = spec->required;
        file->path = strdup(sbx_collect_name(spec));
        if (!file->path)
            return -ENOMEM;
    }
    return 0;
}

/* The payload becomes that of the run. */
static int seal(struct sbx_execution *execution, struct cr_err *err)
{
    int r = sbx_payload_seal(&execution->payload, err);

    if (r < 0)
        return r;
    execution->child_fds[0] = r;
    cr_buf_done(&execution->payload);
    return sbx_digest_file(r, execution->program_digest, err);
}

int sbx_execution_complete(struct sbx_execution *execution, const void *compiled, size_t size,
                           struct cr_err *err)
{
    int r = sbx_compiled_add(compiled, size, &execution->payload);

    if (r < 0)
        return cr_err_sys(err, -r, "pack what was compiled");
    sbx_payload_end(&execution->payload);
    return seal(execution, err);
}

int sbx_execution_new(const Crisol__Sandbox__V1__ExecuteRequest *message,
                      const struct sbx_request *request, const char *caller,
                      const struct sbx_waker *waker, struct sbx_execution **ret_execution,
                      struct cr_err *err)
{
    struct sbx_execution *execution = alloc_execution();
    int r;

    if (!execution)
        return cr_err_set(err, ENOMEM, "out of memory for an execution");
    execution->waker = *waker;
    if (cr_trace_current())
        execution->trace = *cr_trace_current();
    execution->request = *request;
    cr_buf_init(&execution->input, SBX_INPUT_MAX);
    (void)snprintf(execution->request_id, sizeof(execution->request_id), "%s", message->request_id);
    (void)snprintf(execution->caller, sizeof(execution->caller), "%s", caller);
    for (size_t i = 0; i < 2; i++)
        sbx_output_init(&execution->outputs[i], (enum sbx_overflow)(request->on_overflow - 1),
                        request->limits.value[SBX_LIMIT_OUTPUT], request->as_text);
    r = draw_id(execution->id, err);
    if (r == 0 && (copy_stdin(execution, message) < 0 || copy_collect(execution, message) < 0))
        r = cr_err_set(err, ENOMEM, "out of memory for an execution");
    if (r == 0)
        r = sbx_payload_build(message, request, &execution->payload, err);
    if (r == 0 && !request->has_compile)
        r = seal(execution, err);
    execution->request.contents = NULL;
    if (r < 0) {
        free_execution(execution);
        return r;
    }
    *ret_execution = execution;
    return 0;
}

int sbx_execution_new_compile(const Crisol__Sandbox__V1__ExecuteRequest *message,
                              const struct sbx_execution *execution,
                              const struct sbx_request *request, const struct sbx_waker *waker,
                              struct sbx_execution **ret_execution, struct cr_err *err)
{
    int r = sbx_execution_new(message, request, execution->caller, waker, ret_execution, err);

    if (r == 0)
        memcpy((*ret_execution)->id, execution->id, sizeof(execution->id));
    return r;
}

void sbx_execution_set_sandbox(struct sbx_execution *execution, struct sbx_sandbox *sandbox)
{
    execution->sandbox = sandbox;
}

void sbx_execution_set_policy(struct sbx_execution *execution, const char *policy_digest)
{
    (void)snprintf(execution->policy_digest, sizeof(execution->policy_digest), "%s", policy_digest);
}

static void kick(struct sbx_execution *execution, uint32_t kicks)
{
    bool must_post;

    (void)pthread_mutex_lock(&execution->lock);
    execution->kicks |= kicks;
    /* What comes before it is submitted goes with that. */
    must_post = execution->backend && !execution->is_posted && !execution->is_ended;
    execution->is_posted = execution->is_posted || must_post;
    (void)pthread_mutex_unlock(&execution->lock);
    if (must_post)
        sbx_backend_post(execution->backend, sbx_execution_ref(execution));
}

void sbx_execution_give_way(struct sbx_execution *execution)
{
    execution->gives_way = true;
}

void sbx_execution_submit(struct sbx_execution *execution, struct sbx_backend *backend)
{
    execution->backend = backend;
    kick(execution, SBX_KICK_SUBMIT);
}

void sbx_execution_cancel(struct sbx_execution *execution, bool is_abandoned)
{
    kick(execution, SBX_KICK_CANCEL | (is_abandoned ? SBX_KICK_ABANDON : 0));
}

bool sbx_execution_wants_input(struct sbx_execution *execution)
{
    bool wants;

    (void)pthread_mutex_lock(&execution->lock);
    wants = execution->input.size < SBX_INPUT_MAX / 2 && !execution->is_ended;
    (void)pthread_mutex_unlock(&execution->lock);
    return wants;
}

int sbx_execution_add_input(struct sbx_execution *execution, const void *data, size_t size)
{
    int r = 0;

    (void)pthread_mutex_lock(&execution->lock);
    if (!execution->is_input_closed && !execution->is_ended)
        r = cr_buf_add(&execution->input, data, size);
    (void)pthread_mutex_unlock(&execution->lock);
    if (r == 0)
        kick(execution, SBX_KICK_INPUT);
    return r < 0 ? -ENOMEM : 0;
}

void sbx_execution_close_input(struct sbx_execution *execution)
{
    (void)pthread_mutex_lock(&execution->lock);
    execution->is_input_closed = true;
    (void)pthread_mutex_unlock(&execution->lock);
    kick(execution, SBX_KICK_INPUT);
}

void sbx_execution_signal(struct sbx_execution *execution, uint32_t number)
{
    (void)pthread_mutex_lock(&execution->lock);
    execution->signals |= UINT64_C(1) << (number - 1);
    (void)pthread_mutex_unlock(&execution->lock);
    kick(execution, SBX_KICK_CONTROL);
}

void sbx_execution_resize(struct sbx_execution *execution, uint16_t columns, uint16_t rows)
{
    (void)pthread_mutex_lock(&execution->lock);
    execution->columns = columns;
    execution->rows = rows;
    (void)pthread_mutex_unlock(&execution->lock);
    kick(execution, SBX_KICK_CONTROL);
}

/* The stream to take from next: the one that was not taken last, when it has something. */
static uint32_t next_stream(const struct sbx_execution *execution)
{
    uint32_t other = execution->last_stream == 1 ? 2 : 1;

    if (sbx_output_has_piece(&execution->outputs[other - 1]))
        return other;
    return sbx_output_has_piece(&execution->outputs[2 - other]) ? 3 - other : 0;
}

static struct sbx_event take_output(struct sbx_execution *execution, uint32_t stream,
                                    struct cr_buf *chunk)
{
    struct sbx_piece piece = sbx_output_take(&execution->outputs[stream - 1], chunk);
    struct sbx_event event = {.stream = stream, .offset = piece.offset, .dropped = piece.dropped};

    execution->last_stream = stream;
    if (piece.type == SBX_PIECE_DATA)
        event.type = SBX_EVENT_DATA;
    else if (piece.type == SBX_PIECE_TRUNCATED)
        event.type = SBX_EVENT_TRUNCATED;
    return event;
}

struct sbx_event sbx_execution_take(struct sbx_execution *execution, struct cr_buf *chunk)
{
    struct sbx_event event = {.type = SBX_EVENT_NONE};
    bool has_room = false;
    uint32_t stream;

    (void)pthread_mutex_lock(&execution->lock);
    stream = next_stream(execution);
    if (execution->is_started && !execution->is_started_taken) {
        execution->is_started_taken = true;
        event.type = SBX_EVENT_STARTED;
    } else if (stream) {
        event = take_output(execution, stream, chunk);
        has_room = sbx_output_wants_more(&execution->outputs[stream - 1]);
    } else if (execution->is_ended && !execution->is_ended_taken) {
        execution->is_ended_taken = true;
        event.type = SBX_EVENT_ENDED;
    }
    (void)pthread_mutex_unlock(&execution->lock);
    if (has_room)
        kick(execution, SBX_KICK_ROOM);
    return event;
}

const char *sbx_execution_id(const struct sbx_execution *execution)
{
    return execution->id;
}

const char *sbx_execution_request_id(const struct sbx_execution *execution)
{
    return execution->request_id;
}

const char *sbx_execution_caller(const struct sbx_execution *execution)
{
    return execution->caller;
}

const struct sbx_request *sbx_execution_request(const struct sbx_execution *execution)
{
    return &execution->request;
}

uint64_t sbx_execution_queue_us(struct sbx_execution *execution)
{
    uint64_t queue_us;

    (void)pthread_mutex_lock(&execution->lock);
    queue_us = execution->queue_us;
    (void)pthread_mutex_unlock(&execution->lock);
    return queue_us;
}

const struct sbx_outcome *sbx_execution_outcome(const struct sbx_execution *execution)
{
    return &execution->outcome;
}

const struct sbx_output *sbx_execution_output(const struct sbx_execution *execution,
                                              uint32_t stream)
{
    return &execution->outputs[stream - 1];
}

const struct sbx_collected *sbx_execution_files(const struct sbx_execution *execution,
                                                size_t *ret_count)
{
    *ret_count = execution->collector.count - (execution->wants_report ? 1 : 0);
    return execution->collector.files;
}

const struct sbx_collected *sbx_execution_report(const struct sbx_execution *execution)
{
    return execution->wants_report ? &execution->collector.files[execution->collector.count - 1]
                                   : NULL;
}
