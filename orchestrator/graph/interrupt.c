/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/clock.h"
#include "common/err.h"
#include "common/unconst.h"
#include "orchestrator/graph/call.h"
#include "orchestrator/graph/edits.h"
#include "orchestrator/graph/event_log.h"
#include "orchestrator/graph/run.h"
#include "rpc/pack.h"
#include "rpc/status.h"

#include <stdlib.h>
#include <string.h>

#define EVENT(name) CRISOL__AGENT__V1__RUN_EVENT__EVENT_##name

/* ---- the engine's thread ---- */

bool agt_run_is_paused(const struct agt_run *run)
{
    return run->interrupt_seq != 0; /* written by this thread alone */
}

static void set_pause(struct agt_run *run, uint32_t seq)
{
    (void)pthread_mutex_lock(&run->lock);
    run->interrupt_seq = seq;
    run->interrupt_node = run->node;
    (void)pthread_mutex_unlock(&run->lock);
}

bool agt_run_pauses(struct agt_run *run)
{
    Crisol__Agent__V1__Interrupted interrupted = CRISOL__AGENT__V1__INTERRUPTED__INIT;
    Crisol__Agent__V1__RunEvent event = CRISOL__AGENT__V1__RUN_EVENT__INIT;

    if (agt_run_is_paused(run))
        return true;
    if (run->outcome != AGT_OUTCOME_DONE || !(run->interrupts & 1U << run->node) ||
        run->has_passed_on || run->stop != AGT_STOP_NONE)
        return false;
    interrupted.after = (Crisol__Agent__V1__Node)run->node;
    event.event_case = EVENT(INTERRUPTED);
    event.interrupted = &interrupted;
    agt_run_emit(run, &event);
    if (run->stop != AGT_STOP_NONE) /* the journal does not know of it */
        return false;
    set_pause(run, run->seq);
    run->interrupted_ns = cr_clock_mono_ns();
    return true;
}

void agt_run_end_pause(struct agt_run *run)
{
    if (!agt_run_is_paused(run))
        return;
    set_pause(run, 0);
    run->has_passed_on = true;
    run->deadline_ns += cr_clock_mono_ns() - run->interrupted_ns; /* a person has no deadline */
}

static void replace(char **text, const char *edited)
{
    char *copy = strdup(edited);

    if (!copy)
        return;
    free(*text);
    *text = copy;
}

/* What was checked has room; without memory the file stays, and the event tells what they are. */
static void replace_more(struct agt_files *files, const Crisol__Agent__V1__File *file)
{
    char *copy = strdup(file->text);

    if (copy)
        (void)agt_files_put(files, file->path, copy);
}

static void apply(struct agt_run *run, const Crisol__Agent__V1__Resumed *edits)
{
    if (edits->plan[0]) {
        replace(&run->plan, edits->plan);
        agt_receipt_add_text(&run->receipt, AGT_RECEIPT_PLAN, 0, run->plan);
    }
    for (size_t i = 0; i < edits->n_files; i++) {
        const Crisol__Agent__V1__File *file = edits->files[i];

        if (strcmp(file->path, AGT_SOLUTION_NAME) == 0)
            replace(&run->files.solution, file->text);
        else if (strcmp(file->path, AGT_TESTS_NAME) == 0)
            replace(&run->files.tests, file->text);
        else
            replace_more(&run->files, file);
    }
    if (edits->n_files > 0)
        agt_generator_note_edits(run);
}

static void emit(struct agt_run *run, const Crisol__Agent__V1__Resumed *edits)
{
    Crisol__Agent__V1__Resumed resumed = CRISOL__AGENT__V1__RESUMED__INIT;
    Crisol__Agent__V1__RunEvent event = CRISOL__AGENT__V1__RUN_EVENT__INIT;
    struct agt_files_message files;

    resumed.plan = edits->plan;
    if (edits->n_files > 0) {
        agt_files_fill(&run->files, &files);
        resumed.files = files.list;
        resumed.n_files = files.count;
    }
    event.event_case = EVENT(RESUMED);
    event.resumed = &resumed;
    agt_run_emit(run, &event);
}

/* From here on nobody else takes it up, or looks at the files. */
static void close_pause(struct agt_run *run)
{
    (void)pthread_mutex_lock(&run->lock);
    run->resumed_seq = run->interrupt_seq;
    (void)pthread_mutex_unlock(&run->lock);
}

void agt_run_take_up(struct agt_run *run, const Crisol__Agent__V1__Resumed *edits)
{
    close_pause(run);
    apply(run, edits);
    agt_run_end_pause(run);
    emit(run, edits);
    agt_run_drive(run);
}

void agt_run_on_resume(struct agt_run *run, const struct agt_mail *mail)
{
    Crisol__Agent__V1__Resumed *edits;

    if (run->interrupt_seq != mail->offset)
        return; /* it was taken up, or stopped, before */
    edits = crisol__agent__v1__resumed__unpack(NULL, mail->size, (const uint8_t *)mail->data);
    if (edits)
        agt_run_take_up(run, edits);
    else
        agt_guest_take_back_resume(run, run->interrupt_seq); /* no memory: it may be asked again */
    crisol__agent__v1__resumed__free_unpacked(edits, NULL);
}

/* ---- any thread ---- */

static int pack_edits(const struct agt_edits *edits, uint8_t **ret_packed, size_t *ret_size)
{
    Crisol__Agent__V1__Resumed resumed = CRISOL__AGENT__V1__RESUMED__INIT;
    Crisol__Agent__V1__File files[AGT_EDIT_FILES_MAX];
    Crisol__Agent__V1__File *list[AGT_EDIT_FILES_MAX];

    if (edits->plan)
        resumed.plan = cr_unconst(edits->plan);
    for (size_t i = 0; i < edits->file_count; i++) {
        crisol__agent__v1__file__init(&files[i]);
        files[i].path = cr_unconst(edits->files[i].path);
        files[i].text = cr_unconst(edits->files[i].text);
        list[i] = &files[i];
    }
    resumed.files = list;
    resumed.n_files = edits->file_count;
    return rpc_pack(&resumed.base, ret_packed, ret_size);
}

static struct agt_mail *make_mail(struct agt_run *run, const struct agt_edits *edits)
{
    CR_AUTO_FREE uint8_t *packed = NULL;
    size_t size;

    if (pack_edits(edits, &packed, &size) < 0)
        return NULL;
    return agt_mail_new(AGT_MAIL_RESUME, run, packed, size);
}

static int refuse_idle(const struct agt_run *run, struct rpc_status *status)
{
    const char *advice = agt_run_has_ended(run)
                             ? ", and this one has ended; ForkRun starts another from its events, "
                               "and a hint goes on with one that ended STALLED"
                             : "";

    rpc_status_set(status, RPC_FAILED_PRECONDITION,
                   "run_id: the run is not interrupted; only one that waits can be taken up%s",
                   advice);
    return -EBUSY;
}

static int refuse_memory(struct rpc_status *status)
{
    rpc_status_set(status, RPC_RESOURCE_EXHAUSTED, "out of memory; try again later");
    return -ENOMEM;
}

/* With the lock of the run. */
static int resume_locked(struct agt_run *run, const struct agt_edits *edits, uint32_t *ret_seq,
                         struct rpc_status *ret_status)
{
    struct agt_mail *mail;

    if (run->interrupt_seq == 0 || run->interrupt_seq == run->resumed_seq || !run->engine)
        return refuse_idle(run, ret_status);
    /* The engine's thread changes the files only once resumed_seq says that somebody was here, or
     * the pause has ended. */
    agt_edits_check(edits, run->interrupt_node, run->terms, &run->files, ret_status);
    if (ret_status->code != RPC_OK)
        return -EINVAL;
    mail = make_mail(run, edits);
    if (!mail)
        return refuse_memory(ret_status);
    mail->offset = run->interrupt_seq;
    *ret_seq = run->interrupt_seq;
    run->resumed_seq = run->interrupt_seq;
    agt_engine_post(run->engine, mail);
    return 0;
}

int agt_run_resume(struct agt_run *run, const struct agt_edits *edits, uint32_t *ret_seq,
                   struct rpc_status *ret_status)
{
    int r;

    (void)pthread_mutex_lock(&run->lock);
    r = resume_locked(run, edits, ret_seq, ret_status);
    (void)pthread_mutex_unlock(&run->lock);
    return r;
}

int agt_run_resume_packed(struct agt_run *run, uint32_t seq, const void *packed, size_t size)
{
    Crisol__Agent__V1__Resumed *resumed = crisol__agent__v1__resumed__unpack(NULL, size, packed);
    struct rpc_status status = RPC_STATUS_INIT;
    struct agt_edits edits = {.plan = NULL};
    uint32_t resumed_seq;
    int r = -EBADMSG;

    if (resumed && resumed->n_files <= AGT_EDIT_FILES_MAX) {
        edits.plan = resumed->plan;
        edits.file_count = resumed->n_files;
        for (size_t i = 0; i < resumed->n_files; i++) {
            edits.files[i].path = resumed->files[i]->path;
            edits.files[i].text = resumed->files[i]->text;
        }
        (void)pthread_mutex_lock(&run->lock);
        r = run->interrupt_seq == seq ? resume_locked(run, &edits, &resumed_seq, &status) : -EBUSY;
        (void)pthread_mutex_unlock(&run->lock);
    }
    crisol__agent__v1__resumed__free_unpacked(resumed, NULL);
    return r;
}

/* What a run of another process has come to, by its events. */
struct progress {
    enum agt_node paused;   /* the node behind which it waits; NONE: it does not */
    uint32_t seq;           /* of the event that told of it */
    struct agt_files files; /* the further ones alone */
};

static int keep_files(struct progress *progress, Crisol__Agent__V1__File **files, size_t count)
{
    int r = 0;

    agt_files_done(&progress->files);
    for (size_t i = 0; r != -ENOMEM && i < count; i++) {
        char *text;

        if (agt_files_path_fault(files[i]->path, strlen(files[i]->path)))
            continue; /* solution.py or its tests */
        text = strdup(files[i]->text);
        r = text ? agt_files_put(&progress->files, files[i]->path, text) : -ENOMEM;
    }
    return r == -ENOMEM ? r : 0;
}

static int follow(struct progress *progress, const Crisol__Agent__V1__RunEvent *event)
{
    progress->paused = AGT_NODE_NONE;
    switch (event->event_case) {
    case EVENT(INTERRUPTED):
        progress->paused = (enum agt_node)event->interrupted->after;
        progress->seq = event->seq;
        return 0;
    case EVENT(FILES_READY):
        return keep_files(progress, event->files_ready->files, event->files_ready->n_files);
    case EVENT(RESUMED):
        return event->resumed->n_files > 0
                   ? keep_files(progress, event->resumed->files, event->resumed->n_files)
                   : 0;
    default:
        return 0;
    }
}

static int follow_packed(struct progress *progress, const struct agt_event *packed)
{
    Crisol__Agent__V1__RunEvent *event;
    int r;

    if (!packed->is_state)
        return 0;
    event = crisol__agent__v1__run_event__unpack(NULL, packed->size, packed->packed);
    r = event ? follow(progress, event) : -ENOMEM;
    crisol__agent__v1__run_event__free_unpacked(event, NULL);
    return r;
}

static void notify_nobody(void *user)
{
    (void)user;
}

/* Returns 0 or -ENOMEM; *progress is to be freed in any case. */
static int follow_events(struct agt_run *run, struct progress *progress)
{
    struct agt_watch *watch = NULL;
    struct agt_event *packed = NULL;
    int r = agt_watch_new(run, 0, notify_nobody, NULL, &watch);

    while (r == 0 && agt_watch_next(watch, &packed) == 1) {
        r = follow_packed(progress, packed);
        packed = agt_event_unref(packed);
    }
    (void)agt_watch_free(watch);
    return r;
}

static int check_guest(struct agt_run *run, const struct progress *progress,
                       const struct agt_edits *edits, struct rpc_status *ret_status)
{
    bool is_first;

    (void)pthread_mutex_lock(&run->lock);
    is_first = progress->paused != AGT_NODE_NONE && progress->seq != run->resumed_seq;
    (void)pthread_mutex_unlock(&run->lock);
    if (!is_first)
        return refuse_idle(run, ret_status);
    agt_edits_check(edits, progress->paused, run->terms, &progress->files, ret_status);
    return ret_status->code == RPC_OK ? 0 : -EINVAL;
}

int agt_guest_pack_resume(struct agt_run *run, const struct agt_edits *edits, uint8_t **ret_packed,
                          size_t *ret_size, uint32_t *ret_seq, struct rpc_status *ret_status)
{
    struct progress progress = {.paused = AGT_NODE_NONE, .files = AGT_FILES_INIT};
    int r = follow_events(run, &progress);

    if (r == 0)
        r = check_guest(run, &progress, edits, ret_status);
    if (r == 0)
        r = pack_edits(edits, ret_packed, ret_size);
    if (r == -ENOMEM)
        r = refuse_memory(ret_status);
    agt_files_done(&progress.files);
    if (r < 0)
        return r;
    (void)pthread_mutex_lock(&run->lock);
    run->resumed_seq = progress.seq;
    (void)pthread_mutex_unlock(&run->lock);
    *ret_seq = progress.seq;
    return 0;
}

void agt_guest_take_back_resume(struct agt_run *run, uint32_t seq)
{
    (void)pthread_mutex_lock(&run->lock);
    if (run->resumed_seq == seq)
        run->resumed_seq = 0;
    (void)pthread_mutex_unlock(&run->lock);
}
