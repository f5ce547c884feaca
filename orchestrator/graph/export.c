/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/graph/export.h"

#include "common/auto.h"
#include "crisol/journal/v1/journal.pb-c.h"
#include "orchestrator/graph/engine.h"
#include "orchestrator/graph/journal.h"
#include "orchestrator/graph/run.h"
#include "rpc/pack.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

typedef Crisol__Journal__V1__ExportedEvent exported_event;

struct export
{
    struct agt_store_batch batch; /* first */
    struct agt_run *run;          /* a reference */
    exported_event **events;      /* owned */
    size_t count;
    size_t size;
    void (*on_done)(void *user, uint8_t *take_packed, size_t size, int error);
    void *user;
};

static int copy(const void *data, size_t size, ProtobufCBinaryData *ret_copy)
{
    if (size == 0)
        return 0;
    ret_copy->data = malloc(size);
    if (!ret_copy->data)
        return -ENOMEM;
    memcpy(ret_copy->data, data, size);
    ret_copy->len = size;
    return 0;
}

static int on_event(struct agt_store_batch *batch, const struct agt_store_event *row)
{
    struct export *export = (struct export *)(void *)batch;
    exported_event **events =
        reallocarray(export->events, export->count + 1, sizeof(exported_event *));
    exported_event *event;

    if (!events)
        return -ENOMEM;
    export->events = events;
    export->size += row->size + row->input_size;
    if (export->size > AGT_EXPORT_MAX)
        return -EFBIG;
    event = malloc(sizeof(*event));
    if (!event)
        return -ENOMEM;
    crisol__journal__v1__exported_event__init(event);
    events[export->count++] = event;
    if (copy(row->payload, row->size, &event->payload) < 0)
        return -ENOMEM;
    return row->input ? copy(row->input, row->input_size, &event->input) : 0;
}

static uint8_t *finish(struct export *export, size_t *ret_size)
{
    Crisol__Journal__V1__RunExport message = CRISOL__JOURNAL__V1__RUN_EXPORT__INIT;
    uint8_t *packed = NULL;
    char digest[AGT_RECEIPT_DIGEST_SIZE];
    CR_AUTO_FREE uint8_t *spec = agt_journal_pack_spec(export->run, &message.spec.len);

    if (!spec)
        return NULL;
    message.format = export->run->format;
    message.run_id = export->run->id;
    message.spec.data = spec;
    message.events = export->events;
    message.n_events = export->count;
    if (agt_receipt_digest_message(&message.base, digest) < 0)
        return NULL;
    message.sha256 = digest;
    return rpc_pack(&message.base, &packed, ret_size) < 0 ? NULL : packed;
}

static void conclude(struct agt_store_batch *batch, int error)
{
    struct export *export = (struct export *)(void *)batch;
    uint8_t *packed = NULL;
    size_t size = 0;

    if (error == 0 && export->count == 0) /* it was deleted meanwhile, or is just being begun */
        error = agt_run_has_ended(export->run) ? -ENOENT : -EAGAIN;
    if (error == 0) {
        packed = finish(export, &size);
        error = packed ? 0 : -ENOMEM;
    }
    export->on_done(export->user, packed, size, error);
    for (size_t i = 0; i < export->count; i++)
        crisol__journal__v1__exported_event__free_unpacked(export->events[i], NULL);
    free(export->events);
    (void)agt_run_unref(export->run);
    free(export);
}

int agt_run_export(struct agt_store *store, struct agt_run *run,
                   void (*on_done)(void *user, uint8_t *take_packed, size_t size, int error),
                   void *user)
{
    struct export *export = calloc(1, sizeof(*export));

    if (!export)
        return -ENOMEM;
    export->run = agt_run_ref(run);
    export->on_done = on_done;
    export->user = user;
    (void)memccpy(export->batch.run_id, run->id, '\0', sizeof(export->batch.run_id));
    export->batch.on_event = on_event;
    export->batch.on_done = conclude;
    store->ops->append(store, &export->batch);
    return 0;
}
