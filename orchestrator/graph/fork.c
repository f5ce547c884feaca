/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/graph/fork.h"

#include "common/auto.h"
#include "common/unconst.h"
#include "crisol/journal/v1/journal.pb-c.h"
#include "orchestrator/graph/journal.h"
#include "orchestrator/graph/run.h"
#include "rpc/pack.h"
#include "rpc/status.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define ID_LENGTH (AGT_STORE_ID_SIZE - 1)

struct fork {
    struct agt_store_batch batch; /* first */
    struct agt_store_event events[];
};

static void free_parts(struct agt_store_batch *batch)
{
    struct fork *fork = (struct fork *)(void *)batch;

    for (size_t i = 0; i < batch->event_count; i++) {
        free(cr_unconst(fork->events[i].payload));
        free(cr_unconst(fork->events[i].input));
    }
    batch->event_count = 0;
    free(cr_unconst(batch->spec));
    batch->spec = NULL;
    batch->spec_size = 0;
}

void agt_fork_free(struct agt_store_batch *batch)
{
    if (!batch)
        return;
    free_parts(batch);
    free(batch);
}

static void on_taken_back(struct agt_store_batch *batch, int error)
{
    (void)error; /* then it is taken up with the next start */
    agt_fork_free(batch);
}

void agt_fork_take_back(struct agt_store_batch *batch)
{
    free_parts(batch);
    batch->is_forget = true;
    batch->fence = AGT_STORE_FIRST_FENCE;
    batch->on_done = on_taken_back;
    batch->user = NULL;
}

/* Into what a batch of the store holds. */
static int pack(const ProtobufCMessage *message, const void **ret_packed, size_t *ret_size)
{
    uint8_t *packed = NULL;
    int r = rpc_pack(message, &packed, ret_size);

    if (r == 0)
        *ret_packed = packed;
    return r;
}

/* The key starts one run, and that is not this one. */
static int copy_spec(const ProtobufCBinaryData *from, const char *hint,
                     struct agt_store_batch *batch)
{
    Crisol__Journal__V1__RunSpec *spec =
        crisol__journal__v1__run_spec__unpack(NULL, from->len, from->data);
    char empty[] = "";
    char *hints[AGT_HINTS_MAX];
    char *key;
    int r;

    if (!spec)
        return -EBADMSG;
    key = spec->idempotency_key;
    spec->idempotency_key = empty;
    if (hint && spec->n_hints < AGT_HINTS_MAX) {
        char **before = spec->hints;

        if (spec->n_hints > 0)
            memcpy(hints, before, spec->n_hints * sizeof(hints[0]));
        hints[spec->n_hints++] = cr_unconst(hint);
        spec->hints = hints;
        r = pack(&spec->base, &batch->spec, &batch->spec_size);
        spec->hints = before;
        spec->n_hints--;
    } else {
        r = pack(&spec->base, &batch->spec, &batch->spec_size);
    }
    spec->idempotency_key = key;
    crisol__journal__v1__run_spec__free_unpacked(spec, NULL);
    return r;
}

static int copy_payload(const ProtobufCBinaryData *from, char *run_id,
                        struct agt_store_event *event)
{
    Crisol__Agent__V1__RunEvent *message =
        crisol__agent__v1__run_event__unpack(NULL, from->len, from->data);
    char *before;
    int r;

    if (!message)
        return -EBADMSG;
    before = message->run_id;
    message->run_id = run_id;
    r = agt_replay_knows_event(message) ? pack(&message->base, &event->payload, &event->size)
                                        : -EPROTO;
    message->run_id = before;
    crisol__agent__v1__run_event__free_unpacked(message, NULL);
    return r;
}

/* Requests to the sandbox have the id of their run in them: their keys, and their digests. */
static void rename_call(Crisol__Journal__V1__CallRecord *record, const char *old, const char *new)
{
    if (strncmp(record->key, old, ID_LENGTH) != 0)
        return;
    memcpy(record->key, new, ID_LENGTH);
    if (record->request_sha256[0])
        record->request_sha256[0] = '\0';
}

static int copy_input(const ProtobufCBinaryData *from, const char *old, const char *new,
                      struct agt_store_event *event)
{
    Crisol__Journal__V1__CallRecords *records;
    int r;

    if (from->len == 0)
        return 0;
    records = crisol__journal__v1__call_records__unpack(NULL, from->len, from->data);
    if (!records)
        return -EBADMSG;
    for (size_t i = 0; i < records->n_records; i++)
        rename_call(records->records[i], old, new);
    r = agt_replay_knows_records(records) ? pack(&records->base, &event->input, &event->input_size)
                                          : -EPROTO;
    crisol__journal__v1__call_records__free_unpacked(records, NULL);
    return r;
}

static int fill(const Crisol__Journal__V1__RunExport *export, uint32_t seq, const char *hint,
                struct fork *fork)
{
    struct agt_store_batch *batch = &fork->batch;
    int r = copy_spec(&export->spec, hint, batch);

    agt_run_make_id(batch->run_id);
    batch->events = fork->events;
    for (uint32_t i = 0; r == 0 && i < seq; i++) {
        struct agt_store_event *event = &fork->events[i];

        batch->event_count++;
        event->seq = i + 1;
        r = copy_payload(&export->events[i]->payload, batch->run_id, event);
        if (r == 0)
            r = copy_input(&export->events[i]->input, export->run_id, batch->run_id, event);
    }
    return r;
}

static bool is_result(const ProtobufCBinaryData *payload)
{
    Crisol__Agent__V1__RunEvent *event =
        crisol__agent__v1__run_event__unpack(NULL, payload->len, payload->data);
    bool is = event && event->event_case == CRISOL__AGENT__V1__RUN_EVENT__EVENT_RESULT;

    crisol__agent__v1__run_event__free_unpacked(event, NULL);
    return is;
}

static int check_seq(const Crisol__Journal__V1__RunExport *export, uint32_t seq,
                     struct rpc_status *ret_status)
{
    size_t last = export->n_events;

    if (last > 0 && is_result(&export->events[last - 1]->payload))
        last--;
    if (seq >= 1 && seq <= last)
        return 0;
    rpc_status_add_violation(ret_status, "seq", "must be a state event from 1 to %zu", last);
    return -EINVAL;
}

int agt_fork_make(const void *packed, size_t size, uint32_t seq, const char *hint,
                  struct agt_store_batch **ret_batch, struct rpc_status *ret_status)
{
    Crisol__Journal__V1__RunExport *export =
        crisol__journal__v1__run_export__unpack(NULL, size, packed);
    struct fork *fork = NULL;
    int r = export ? check_seq(export, seq, ret_status) : -ENOMEM;

    if (r == 0) {
        fork = calloc(1, sizeof(*fork) + seq * sizeof(fork->events[0]));
        r = fork ? fill(export, seq, hint, fork) : -ENOMEM;
    }
    crisol__journal__v1__run_export__free_unpacked(export, NULL);
    if (r == 0) {
        *ret_batch = &fork->batch;
        return 0;
    }
    agt_fork_free(fork ? &fork->batch : NULL);
    if (r == -EPROTO) /* it would be stored, and nobody here could go on with it */
        rpc_status_set(ret_status, RPC_FAILED_PRECONDITION,
                       "run_id: a newer version of the service wrote the run; ask one of these");
    else if (ret_status->code == RPC_OK)
        rpc_status_set(ret_status, RPC_RESOURCE_EXHAUSTED, "out of memory; try again later");
    return r;
}
