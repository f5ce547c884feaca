/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/clock.h"
#include "common/err.h"
#include "common/unconst.h"
#include "common/utf8.h"
#include "orchestrator/graph/call.h"
#include "orchestrator/graph/run.h"
#include "rpc/status.h"

#include <stdlib.h>
#include <string.h>

#define EVENT(name) CRISOL__AGENT__V1__RUN_EVENT__EVENT_##name
#define EDIT_FILE_MAX 262144U /* bytes */

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

static void apply(struct agt_run *run, const Crisol__Agent__V1__Resumed *edits)
{
    if (edits->plan[0]) {
        replace(&run->plan, edits->plan);
        agt_receipt_add_text(&run->receipt, AGT_RECEIPT_PLAN, 0, run->plan);
    }
    for (size_t i = 0; i < edits->n_files; i++) {
        const Crisol__Agent__V1__File *file = edits->files[i];

        replace(strcmp(file->path, AGT_TESTS_NAME) == 0 ? &run->files.tests : &run->files.solution,
                file->text);
    }
}

static void emit(struct agt_run *run, const Crisol__Agent__V1__Resumed *edits)
{
    Crisol__Agent__V1__Resumed resumed = CRISOL__AGENT__V1__RESUMED__INIT;
    Crisol__Agent__V1__RunEvent event = CRISOL__AGENT__V1__RUN_EVENT__INIT;
    Crisol__Agent__V1__File solution = CRISOL__AGENT__V1__FILE__INIT;
    Crisol__Agent__V1__File tests = CRISOL__AGENT__V1__FILE__INIT;
    Crisol__Agent__V1__File *files[] = {&solution, &tests};
    char solution_name[] = AGT_SOLUTION_NAME;
    char tests_name[] = AGT_TESTS_NAME;

    resumed.plan = edits->plan;
    if (edits->n_files > 0) {
        solution.path = solution_name;
        solution.text = run->files.solution;
        tests.path = tests_name;
        tests.text = run->files.tests;
        resumed.files = files;
        resumed.n_files = 2;
    }
    event.event_case = EVENT(RESUMED);
    event.resumed = &resumed;
    agt_run_emit(run, &event);
}

void agt_run_take_up(struct agt_run *run, const Crisol__Agent__V1__Resumed *edits)
{
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
    crisol__agent__v1__resumed__free_unpacked(edits, NULL);
}

/* ---- any thread ---- */

static void check_file(const char *path, const char *text, struct rpc_status *status)
{
    size_t size = strnlen(text, EDIT_FILE_MAX + 1);

    if (strcmp(path, AGT_SOLUTION_NAME) != 0 && strcmp(path, AGT_TESTS_NAME) != 0)
        rpc_status_add_violation(status, "files", "a path must be '%s' or '%s'", AGT_SOLUTION_NAME,
                                 AGT_TESTS_NAME);
    else if (size == 0 || size > EDIT_FILE_MAX || !cr_utf8_is_valid(text, size))
        rpc_status_add_violation(status, "files", "'%s' must be UTF-8 text of 1 to %u bytes", path,
                                 EDIT_FILE_MAX);
}

static void check_edits(enum agt_node node, const struct agt_edits *edits,
                        struct rpc_status *status)
{
    size_t size = edits->plan ? strnlen(edits->plan, AGT_PLAN_MAX + 1) : 0;

    if (size > 0 && node != AGT_NODE_PLANNER)
        rpc_status_add_violation(status, "plan", "can be replaced behind the planner only");
    else if (size > AGT_PLAN_MAX || (size > 0 && !cr_utf8_is_valid(edits->plan, size)))
        rpc_status_add_violation(status, "plan", "must be UTF-8 text of at most %u bytes",
                                 AGT_PLAN_MAX);
    if (edits->file_count > 0 && node != AGT_NODE_GENERATOR)
        rpc_status_add_violation(status, "files", "can be replaced behind the generator only");
    for (size_t i = 0; i < edits->file_count; i++)
        check_file(edits->files[i].path, edits->files[i].text, status);
}

static struct agt_mail *make_mail(struct agt_run *run, const struct agt_edits *edits)
{
    Crisol__Agent__V1__Resumed resumed = CRISOL__AGENT__V1__RESUMED__INIT;
    Crisol__Agent__V1__File files[AGT_EDIT_FILES_MAX];
    Crisol__Agent__V1__File *list[AGT_EDIT_FILES_MAX];
    CR_AUTO_FREE uint8_t *packed = NULL;
    size_t size;

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
    size = crisol__agent__v1__resumed__get_packed_size(&resumed);
    packed = malloc(size + 1);
    if (!packed)
        return NULL;
    (void)crisol__agent__v1__resumed__pack(&resumed, packed);
    return agt_mail_new(AGT_MAIL_RESUME, run, packed, size);
}

/* With the lock of the run. */
static int resume_locked(struct agt_run *run, const struct agt_edits *edits, uint32_t *ret_seq,
                         struct rpc_status *ret_status)
{
    struct agt_mail *mail;

    if (run->interrupt_seq == 0 || run->interrupt_seq == run->resumed_seq || !run->engine) {
        rpc_status_set(ret_status, RPC_FAILED_PRECONDITION,
                       "run_id: the run is not interrupted; only one that waits can be taken up");
        return -EBUSY;
    }
    check_edits(run->interrupt_node, edits, ret_status);
    if (ret_status->code != RPC_OK)
        return -EINVAL;
    mail = make_mail(run, edits);
    if (!mail) {
        rpc_status_set(ret_status, RPC_RESOURCE_EXHAUSTED, "out of memory; try again later");
        return -ENOMEM;
    }
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
