/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/replay/replay_run.h"

#include "common/auto.h"
#include "common/err.h"
#include "crisol/agent/v1/agent.pb-c.h"
#include "orchestrator/graph/engine.h"
#include "orchestrator/graph/journal.h"
#include "orchestrator/receipt/receipt.h"
#include "orchestrator/replay/stand_ins.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EVENT(name) CRISOL__AGENT__V1__RUN_EVENT__EVENT_##name
/* Nothing is waited for but the pauses between tries that failed. */
#define DRAIN_MS 120000

typedef Crisol__Journal__V1__RunExport run_export;

/* ---- the file ---- */

/* Whatever was changed, a byte that no event shows again included. */
static int check_digest(run_export *export, struct cr_err *err)
{
    char *stated = export->sha256;
    char digest[AGT_RECEIPT_DIGEST_SIZE];
    char empty[] = "";
    int r;

    export->sha256 = empty;
    r = agt_receipt_digest_message(&export->base, digest);
    export->sha256 = stated;
    if (r < 0)
        return cr_err_set(err, ENOMEM, "out of memory");
    if (strcmp(digest, stated) != 0)
        return cr_err_set(err, EBADMSG, "it was changed: its digest does not fit its contents");
    return 0;
}

static int read_export(const void *data, size_t size, run_export **ret_export, struct cr_err *err)
{
    run_export *export = crisol__journal__v1__run_export__unpack(NULL, size, data);
    int r;

    if (!export)
        return cr_err_set(err, EBADMSG, "it is no export of a run, or was cut");
    if (export->format > AGT_JOURNAL_FORMAT)
        r = cr_err_set(err, EPROTO, "its format is %u and this program knows up to %d",
                       export->format, AGT_JOURNAL_FORMAT);
    else if (crisol__journal__v1__run_export__get_packed_size(export) != size)
        r = cr_err_set(err, EBADMSG, "it has something in it that is not of an export");
    else
        r = check_digest(export, err);
    if (r < 0) {
        crisol__journal__v1__run_export__free_unpacked(export, NULL);
        return r;
    }
    *ret_export = export;
    return 0;
}

/*
 * The events that can be repeated: who cancels a run, or the time that is over,
 * is no recorded call.
 */
static size_t count_repeatable(const run_export *export)
{
    bool is_stop = false;
    size_t i;

    for (i = 0; i < export->n_events && !is_stop; i++) {
        const ProtobufCBinaryData *payload = &export->events[i]->payload;
        Crisol__Agent__V1__RunEvent *event =
            crisol__agent__v1__run_event__unpack(NULL, payload->len, payload->data);

        is_stop = event && event->event_case == EVENT(EDGE_TAKEN) &&
                  strcmp(event->edge_taken->outcome, "cancelled") == 0;
        crisol__agent__v1__run_event__free_unpacked(event, NULL);
    }
    return is_stop ? i - 1 : i;
}

static bool has_result(const run_export *export)
{
    const ProtobufCBinaryData *payload = &export->events[export->n_events - 1]->payload;
    Crisol__Agent__V1__RunEvent *event =
        crisol__agent__v1__run_event__unpack(NULL, payload->len, payload->data);
    bool is_result = event && event->event_case == EVENT(RESULT);

    crisol__agent__v1__run_event__free_unpacked(event, NULL);
    return is_result;
}

/* ---- repeating ---- */

static void on_difference(void *user, uint32_t seq, const char *text)
{
    struct agt_replay_report *report = user;

    if (report->different_at != 0)
        return; /* what follows from the first one says nothing */
    report->different_at = seq;
    (void)snprintf(report->difference, sizeof(report->difference), "%s", text);
}

static int on_run(void *user, struct agt_run *take_run, const struct agt_run_spec *spec)
{
    struct agt_run **run = user;

    (void)spec;
    *run = take_run;
    return 0;
}

static int repeat(struct agt_stand_ins *stand_ins, struct agt_replay_report *report,
                  struct cr_err *err)
{
    const struct agt_replay_watch watch = {on_difference, report};
    const struct agt_engine_options options = {
        .model = &stand_ins->model,
        .sandbox = &stand_ins->sandbox,
        .store = &stand_ins->store,
        .replay = &watch,
        .retry_base_ms = 1,
    };
    struct agt_engine *engine = NULL;
    struct agt_run *run = NULL;
    bool has_ended;
    int r = agt_engine_new(&options, &engine, err);

    if (r < 0)
        return r;
    r = agt_engine_load(engine, on_run, &run, err);
    if (r == 0 && !run)
        r = cr_err_set(err, EBADMSG, "its events cannot be read");
    has_ended = r < 0 || agt_engine_drain(engine, DRAIN_MS);
    (void)agt_engine_free(engine);
    (void)agt_run_unref(run);
    return has_ended ? r : cr_err_set(err, ETIMEDOUT, "the run could not be repeated in time");
}

/* A whole run asks for nothing more; one that was cut or stopped has to want to go on. */
static void conclude(const struct agt_stand_ins *stand_ins, bool is_whole,
                     struct agt_replay_report *report)
{
    bool has_gone_on = atomic_load(&stand_ins->has_gone_on);

    if (report->different_at == 0 && is_whole && has_gone_on)
        on_difference(report, (uint32_t)report->compared + 1,
                      "the run does not end where the journal does");
}

int agt_replay_run(const void *data, size_t size, struct agt_replay_report *ret_report,
                   struct cr_err *err)
{
    struct agt_replay_report report = {.events = 0};
    struct agt_stand_ins stand_ins;
    run_export *export = NULL;
    int r = read_export(data, size, &export, err);

    if (r < 0 || !export)
        return r;
    if (export->n_events == 0) {
        crisol__journal__v1__run_export__free_unpacked(export, NULL);
        return cr_err_set(err, EBADMSG, "there is no event in it");
    }
    report.events = export->n_events;
    report.compared = count_repeatable(export);
    report.was_stopped = report.compared < report.events;
    (void)memccpy(report.run_id, export->run_id, '\0', sizeof(report.run_id) - 1);
    agt_stand_ins_init(&stand_ins, export, report.compared);
    r = repeat(&stand_ins, &report, err);
    if (r == 0) {
        conclude(&stand_ins, !report.was_stopped && has_result(export), &report);
        *ret_report = report;
    }
    crisol__journal__v1__run_export__free_unpacked(export, NULL);
    return r;
}
