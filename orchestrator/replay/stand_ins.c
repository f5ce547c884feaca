/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/replay/stand_ins.h"

#include "common/err.h"

#include <stddef.h>

/* ---- model ---- */

static int start(struct agt_model *model, const struct agt_model_request *request,
                 const struct agt_model_handlers *handlers, struct agt_model_call **ret_call,
                 struct cr_err *err)
{
    (void)model;
    (void)request;
    (void)handlers;
    (void)ret_call;
    return cr_err_set(err, EPERM, "nothing is asked while a run is repeated");
}

static void cancel_model(struct agt_model_call *call)
{
    (void)call; /* there is none */
}

static const char *default_model(const struct agt_model *model)
{
    (void)model;
    return ""; /* the journal has the name that was in force */
}

static bool is_configured(const struct agt_model *model)
{
    (void)model;
    return true;
}

static void free_model(struct agt_model *model)
{
    (void)model; /* embedded */
}

static const struct agt_model_ops model_ops = {
    .start = start,
    .cancel = cancel_model,
    .unref = cancel_model,
    .default_model = default_model,
    .is_configured = is_configured,
    .free = free_model,
};

/* ---- sandbox ---- */

static int execute(struct agt_sandbox *sandbox, const ProtobufCMessage *request, int deadline_ms,
                   const struct agt_sandbox_handlers *handlers, struct agt_sandbox_call **ret_call,
                   struct cr_err *err)
{
    (void)sandbox;
    (void)request;
    (void)deadline_ms;
    (void)handlers;
    (void)ret_call;
    return cr_err_set(err, EPERM, "nothing is executed while a run is repeated");
}

static void cancel_sandbox(struct agt_sandbox_call *call)
{
    (void)call;
}

static void free_sandbox(struct agt_sandbox *sandbox)
{
    (void)sandbox;
}

static const struct agt_sandbox_ops sandbox_ops = {
    .execute = execute,
    .cancel = cancel_sandbox,
    .unref = cancel_sandbox,
    .free = free_sandbox,
};

/* ---- store ---- */

static struct agt_stand_ins *of(struct agt_store *store)
{
    return (struct agt_stand_ins *)(void *)((char *)store - offsetof(struct agt_stand_ins, store));
}

static void append(struct agt_store *store, struct agt_store_batch *take_batch)
{
    atomic_store(&of(store)->has_gone_on, true);
    take_batch->on_done(take_batch, -ESTALE); /* the run is left */
}

static bool is_accepting(struct agt_store *store)
{
    (void)store;
    return false;
}

static int load_runs(struct agt_store *store,
                     int (*on_run)(void *user, const struct agt_store_run *run), void *user,
                     struct cr_err *err)
{
    const Crisol__Journal__V1__RunExport *export = of(store)->export;
    const struct agt_store_run run = {
        .run_id = export->run_id,
        .spec = export->spec.data,
        .spec_size = export->spec.len,
    };

    (void)err;
    return on_run(user, &run);
}

static int load_events(struct agt_store *store, const char *run_id,
                       int (*on_event)(void *user, const struct agt_store_event *event), void *user,
                       struct cr_err *err)
{
    const struct agt_stand_ins *stand_ins = of(store);
    int r = 0;

    (void)run_id;
    (void)err;
    for (size_t i = 0; r == 0 && i < stand_ins->count; i++) {
        const Crisol__Journal__V1__ExportedEvent *from = stand_ins->export->events[i];
        const struct agt_store_event event = {
            .seq = (uint32_t)i + 1,
            .payload = from->payload.data,
            .size = from->payload.len,
            .input = from->input.len > 0 ? from->input.data : NULL,
            .input_size = from->input.len,
        };

        r = on_event(user, &event);
    }
    return r;
}

static void do_nothing(struct agt_store *store)
{
    (void)store;
}

static const struct agt_store_ops store_ops = {
    .append = append,
    .is_accepting = is_accepting,
    .load_runs = load_runs,
    .load_events = load_events,
    .hurry = do_nothing,
    .free = do_nothing,
};

void agt_stand_ins_init(struct agt_stand_ins *stand_ins,
                        const Crisol__Journal__V1__RunExport *export, size_t count)
{
    *stand_ins = (struct agt_stand_ins){
        .model.ops = &model_ops,
        .sandbox.ops = &sandbox_ops,
        .store.ops = &store_ops,
        .export = export,
        .count = count,
    };
}
