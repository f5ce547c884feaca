/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/front/batch.h"

#include "common/auto.h"
#include "common/unconst.h"
#include "crisol/sandbox/v1/sandbox.pb-c.h"
#include "rpc/pack.h"
#include "rpc/server.h"
#include "rpc/status.h"
#include "sandboxd/front/backend.h"
#include "sandboxd/front/call_state.h"
#include "sandboxd/wire/msg.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ITEMS_MAX 32U
#define ID_MAX 128U
/* What clients take in one message unless told otherwise, less a little for the frame. */
#define ANSWER_BYTES_MAX ((4U << 20) - 1024U)
#define UNSENT_BYTES_MAX (16U << 20) /* answers that the client has not taken */

/* One program of the stream, until its answer has left. */
struct item {
    struct item *next;
    struct batch *batch;    /* borrowed: has the item */
    struct sbx_call *state; /* NULL: never began */
    char id[ID_MAX + 1];
    bool is_answered;
    uint8_t *answer; /* packed RunBatchResponse; NULL: there was no memory for it */
    size_t answer_size;
};

/* A call. */
struct batch {
    struct item *first; /* as they came */
    uint32_t count;
    uint32_t items_max;
    size_t unsent_bytes;
    bool is_half_closed;
    bool is_draining;
};

/* Two for each slot: one runs, and the next waits for it. */
static uint32_t items_max(struct rpc_call *call)
{
    const struct sbx_service *service = rpc_call_context(call);
    struct sbx_msg_hello hello;

    if (!sbx_backend_hello(service->backend, &hello) || hello.slots == 0)
        return 2;
    return hello.slots > ITEMS_MAX / 2 ? ITEMS_MAX : 2 * hello.slots;
}

void sbx_batch_start(struct rpc_call *call)
{
    struct batch *batch = calloc(1, sizeof(*batch));
    struct rpc_status status = RPC_STATUS_INIT;

    if (!batch) {
        sbx_call_no_memory(&status);
        rpc_call_finish(call, &status, NULL);
        return;
    }
    batch->items_max = items_max(call);
    rpc_call_set_user(call, batch);
}

/* ---- the answer of an item ---- */

static void pack(struct item *item, const Crisol__Sandbox__V1__RunBatchResponse *response)
{
    if (rpc_pack(&response->base, &item->answer, &item->answer_size) < 0)
        return;
    item->batch->unsent_bytes += item->answer_size;
}

static void answer_error(struct item *item, const struct rpc_status *status)
{
    Crisol__Sandbox__V1__RunBatchResponse response = CRISOL__SANDBOX__V1__RUN_BATCH_RESPONSE__INIT;
    Crisol__Sandbox__V1__BatchError error = CRISOL__SANDBOX__V1__BATCH_ERROR__INIT;
    char violations[RPC_VIOLATIONS_MAX][sizeof(status->violations[0]) + 2];
    char *list[RPC_VIOLATIONS_MAX];

    for (size_t i = 0; i < status->violation_count; i++) {
        (void)snprintf(violations[i], sizeof(violations[i]), "%s: %s", status->violations[i].field,
                       status->violations[i].description);
        list[i] = violations[i];
    }
    error.code = (uint32_t)status->code;
    error.code_name = cr_unconst(rpc_code_name(status->code));
    error.message = cr_unconst(status->message);
    error.reason = cr_unconst(status->reason);
    error.retry_after_ms = status->retry_after_ms > 0 ? (uint32_t)status->retry_after_ms : 0;
    error.n_violations = status->violation_count;
    error.violations = list;
    response.id = item->id;
    response.error = &error;
    pack(item, &response);
}

/* sbx_answer.take */
static void answer(void *user, const struct rpc_status *status, const ProtobufCMessage *message)
{
    Crisol__Sandbox__V1__RunBatchResponse response = CRISOL__SANDBOX__V1__RUN_BATCH_RESPONSE__INIT;
    struct rpc_status too_large = RPC_STATUS_INIT;
    struct item *item = user;
    size_t size = message ? protobuf_c_message_get_packed_size(message) : 0;

    item->is_answered = true;
    if (message && size <= ANSWER_BYTES_MAX) {
        response.id = item->id;
        response.response = cr_unconst(message);
        pack(item, &response);
        return;
    }
    if (message) {
        rpc_status_set(&too_large, RPC_OUT_OF_RANGE,
                       "it ran, but its answer has %zu bytes and a batch sends at most %u; lower "
                       "limits.output_bytes or collect less, or use Run or Execute",
                       size, ANSWER_BYTES_MAX);
        (void)snprintf(too_large.reason, sizeof(too_large.reason), "ANSWER_TOO_LARGE");
        status = &too_large;
    }
    /* Whoever is told so may send all the rest elsewhere. */
    item->batch->is_draining |=
        status->code == RPC_UNAVAILABLE && strcmp(status->reason, RPC_REASON_DRAINING) == 0;
    answer_error(item, status);
}

/* ---- the items ---- */

static void free_item(struct item *item)
{
    (void)sbx_call_release(item->state);
    free(item->answer);
    free(item);
}

static struct item *add_item(struct batch *batch)
{
    struct item **slot = &batch->first;
    struct item *item = calloc(1, sizeof(*item));

    if (!item)
        return NULL;
    while (*slot)
        slot = &(*slot)->next;
    *slot = item;
    item->batch = batch;
    batch->count++;
    return item;
}

static void begin(struct rpc_call *call, struct item *item,
                  const Crisol__Sandbox__V1__RunBatchRequest *message)
{
    struct rpc_status status = RPC_STATUS_INIT;

    if (strlen(message->id) > ID_MAX) {
        rpc_status_add_violation(&status, "id", "is longer than %u bytes", ID_MAX);
    } else {
        (void)snprintf(item->id, sizeof(item->id), "%s", message->id);
        if (!message->request)
            rpc_status_add_violation(&status, "request", "is missing: say what to run");
    }
    if (status.code == RPC_OK)
        item->state = sbx_call_new(
            call, &(struct sbx_call_order){.kind = SBX_CALL_BATCH, .message = message->request},
            &status);
    if (!item->state) {
        answer(item, &status, NULL);
        return;
    }
    item->state->answer = (struct sbx_answer){.take = answer, .user = item};
    sbx_call_begin(call, item->state);
}

static void advance_all(struct rpc_call *call, struct batch *batch)
{
    for (struct item *item = batch->first; item; item = item->next) {
        if (!item->is_answered)
            sbx_call_advance(call, item->state);
        if (item->is_answered) /* a slot is free as soon as nobody needs its output any more */
            item->state = sbx_call_release(item->state);
    }
}

/* Takes the first item out that has its answer; NULL: none. */
static struct item *take_answered(struct batch *batch)
{
    struct item **slot = &batch->first;
    struct item *item;

    while (*slot && !(*slot)->is_answered)
        slot = &(*slot)->next;
    item = *slot;
    if (!item)
        return NULL;
    *slot = item->next;
    batch->count--;
    return item;
}

void sbx_batch_cancel(struct rpc_call *call)
{
    const struct batch *batch = rpc_call_user(call);

    for (struct item *item = batch ? batch->first : NULL; item; item = item->next) {
        if (item->state)
            sbx_call_abandon(item->state);
    }
}

/* Returns false when there was no memory for an answer: then the call has ended. */
static bool send_answers(struct rpc_call *call, struct batch *batch)
{
    struct rpc_status status = RPC_STATUS_INIT;
    struct item *item;

    while (rpc_call_can_send(call) && (item = take_answered(batch)) != NULL) {
        bool has_answer = item->answer != NULL;

        if (has_answer) {
            (void)rpc_call_send_packed(call, item->answer, item->answer_size);
            batch->unsent_bytes -= item->answer_size;
        }
        free_item(item);
        if (!has_answer) {
            sbx_batch_cancel(call);
            sbx_call_no_memory(&status);
            rpc_call_finish(call, &status, NULL);
            return false;
        }
    }
    return true;
}

static void finish(struct rpc_call *call, const struct batch *batch)
{
    struct rpc_status status = RPC_STATUS_INIT;

    if (!batch->is_draining) {
        rpc_call_finish(call, NULL, NULL);
        return;
    }
    rpc_status_set_draining(&status);
    rpc_call_finish(call, &status, NULL);
}

void sbx_batch_pump(struct rpc_call *call)
{
    struct batch *batch = rpc_call_user(call);

    if (!batch || rpc_call_is_cancelled(call))
        return;
    advance_all(call, batch);
    if (!send_answers(call, batch))
        return;
    if (batch->is_half_closed || batch->is_draining) {
        if (batch->count == 0)
            finish(call, batch);
    } else if (batch->count < batch->items_max && batch->unsent_bytes < UNSENT_BYTES_MAX) {
        rpc_call_read(call);
    }
}

void sbx_batch_message(struct rpc_call *call, const ProtobufCMessage *message)
{
    struct batch *batch = rpc_call_user(call);
    struct item *item = add_item(batch);
    struct rpc_status status = RPC_STATUS_INIT;

    if (!item) {
        sbx_batch_cancel(call);
        sbx_call_no_memory(&status);
        rpc_call_finish(call, &status, NULL);
        return;
    }
    begin(call, item, (const Crisol__Sandbox__V1__RunBatchRequest *)(const void *)message);
    sbx_batch_pump(call);
}

void sbx_batch_half_close(struct rpc_call *call)
{
    struct batch *batch = rpc_call_user(call);

    batch->is_half_closed = true;
    sbx_batch_pump(call);
}

void sbx_batch_free(struct rpc_call *call)
{
    struct batch *batch = rpc_call_user(call);

    while (batch && batch->first) {
        struct item *item = batch->first;

        batch->first = item->next;
        free_item(item);
    }
    free(batch);
}
