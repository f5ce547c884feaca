/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/runs/view.h"

#include "common/clock.h"
#include "orchestrator/graph/engine.h"
#include "orchestrator/graph/usage.h"
#include "orchestrator/runs/states.h"

#include <stdlib.h>
#include <string.h>

#define EVENT(name) CRISOL__AGENT__V1__RUN_EVENT__EVENT_##name
#define STATUS(name) CRISOL__AGENT__V1__RUN_STATUS__RUN_STATUS_##name

typedef Crisol__Agent__V1__RunEvent run_event;
typedef Crisol__Agent__V1__RunResult run_result;

static run_event *unpack(const struct agt_event *event)
{
    return crisol__agent__v1__run_event__unpack(NULL, event->size, event->packed);
}

/* Moves a string between messages; protobuf-c frees what is not its shared empty one. */
static void move_text(char **to, char **from)
{
    char *before = *to;

    *to = *from;
    *from = before;
}

static void add_served(run_result *result, run_event *event)
{
    char **texts;

    if (event->model_call->model_served[0] == '\0')
        return;
    for (size_t i = 0; i < result->n_models_served; i++) {
        if (strcmp(result->models_served[i], event->model_call->model_served) == 0)
            return;
    }
    texts = reallocarray(result->models_served, result->n_models_served + 1, sizeof(*texts));
    if (!texts)
        return;
    result->models_served = texts;
    texts[result->n_models_served] = strdup(event->model_call->model_served);
    if (texts[result->n_models_served])
        result->n_models_served++;
}

static void add_usage(run_result *result, run_event *event)
{
    const Crisol__Agent__V1__ModelUsage *usage = event->model_call->usage;

    add_served(result, event);
    if (!usage)
        return;
    if (!result->usage) {
        result->usage = event->model_call->usage;
        event->model_call->usage = NULL;
        return;
    }
    agt_usage_add(result->usage, usage);
}

static void take_files(run_result *result, run_event *event)
{
    Crisol__Agent__V1__FilesReady *ready = event->files_ready;
    Crisol__Agent__V1__File **files = result->files;
    size_t count = result->n_files;

    result->files = ready->files;
    result->n_files = ready->n_files;
    ready->files = files;
    ready->n_files = count;
}

static void take_edits(run_result *result, Crisol__Agent__V1__Resumed *edits)
{
    Crisol__Agent__V1__File **files = result->files;
    size_t count = result->n_files;

    if (edits->plan[0])
        move_text(&result->plan, &edits->plan);
    if (edits->n_files == 0)
        return;
    result->files = edits->files;
    result->n_files = edits->n_files;
    edits->files = files;
    edits->n_files = count;
}

static void add_attempt(run_result *result, run_event *event)
{
    Crisol__Agent__V1__Evaluation *from = event->evaluation;
    Crisol__Agent__V1__Attempt **attempts = reallocarray(result->attempts, result->n_attempts + 1,
                                                         sizeof(Crisol__Agent__V1__Attempt *));
    Crisol__Agent__V1__Attempt *attempt = malloc(sizeof(*attempt));

    if (attempts)
        result->attempts = attempts;
    if (!attempts || !attempt) {
        free(attempt);
        return;
    }
    crisol__agent__v1__attempt__init(attempt);
    attempt->iteration = event->iteration;
    attempt->passed = from->passed;
    attempt->cause = from->cause;
    move_text(&attempt->summary, &from->summary);
    move_text(&attempt->feedback, &from->feedback);
    attempts[result->n_attempts++] = attempt;
    result->iterations = (int32_t)result->n_attempts;
}

static void fold(run_result *result, run_event *event, uint64_t *began_ms)
{
    switch (event->event_case) {
    case EVENT(RUN_STARTED):
        *began_ms = event->time_ms;
        move_text(&result->task, &event->run_started->task);
        move_text(&result->model_requested, &event->run_started->model);
        break;
    case EVENT(MODEL_CALL):
        add_usage(result, event);
        break;
    case EVENT(PLAN_READY):
        move_text(&result->plan, &event->plan_ready->plan);
        break;
    case EVENT(FILES_READY):
        take_files(result, event);
        break;
    case EVENT(EVALUATION):
        add_attempt(result, event);
        break;
    case EVENT(RESUMED):
        take_edits(result, event->resumed);
        break;
    default:
        break;
    }
}

struct progress {
    run_result *result;
    uint64_t began_ms;
};

static void on_progress(void *user, run_event *event)
{
    struct progress *progress = user;

    fold(progress->result, event, &progress->began_ms);
    progress->result->status =
        event->event_case == EVENT(INTERRUPTED) ? STATUS(INTERRUPTED) : STATUS(RUNNING);
}

static run_result *result_so_far(struct agt_run *run)
{
    struct progress progress = {.result = malloc(sizeof(run_result))};

    if (!progress.result)
        return NULL;
    crisol__agent__v1__run_result__init(progress.result);
    progress.result->run_id = strdup(agt_run_id(run));
    progress.result->status = CRISOL__AGENT__V1__RUN_STATUS__RUN_STATUS_RUNNING;
    if (!progress.result->run_id || agt_states_each(run, on_progress, &progress) < 0) {
        crisol__agent__v1__run_result__free_unpacked(progress.result, NULL);
        return NULL;
    }
    if (progress.began_ms > 0)
        progress.result->elapsed_ms = (uint32_t)((uint64_t)cr_clock_real_ms() - progress.began_ms);
    return progress.result;
}

Crisol__Agent__V1__RunResult *agt_view_result(struct agt_run *run)
{
    struct agt_event *last = agt_run_last_event(run);
    run_event *event = last ? unpack(last) : NULL;
    run_result *result = NULL;

    if (!last) {
        result = result_so_far(run);
        /* There was no memory for its result; one that was left since it was found goes on. */
        if (result && agt_run_has_ended(run) && !agt_run_is_left(run)) {
            result->status = CRISOL__AGENT__V1__RUN_STATUS__RUN_STATUS_FAILED;
            result->cause = CRISOL__AGENT__V1__FAILURE_CAUSE__FAILURE_CAUSE_INTERNAL;
        }
        return result;
    }
    if (event && event->event_case == EVENT(RESULT)) {
        result = event->result;
        event->result = NULL;
    }
    crisol__agent__v1__run_event__free_unpacked(event, NULL);
    (void)agt_event_unref(last);
    return result;
}

static void drop_files(Crisol__Agent__V1__File ***files, size_t *count)
{
    for (size_t i = 0; i < *count; i++)
        crisol__agent__v1__file__free_unpacked((*files)[i], NULL);
    free(*files);
    *files = NULL;
    *count = 0;
}

void agt_view_shorten(Crisol__Agent__V1__RunResult *result)
{
    drop_files(&result->files, &result->n_files);
    for (size_t i = 0; i < result->n_attempts; i++)
        crisol__agent__v1__attempt__free_unpacked(result->attempts[i], NULL);
    free(result->attempts);
    result->attempts = NULL;
    result->n_attempts = 0;
    crisol__agent__v1__execution_result__free_unpacked(result->execution_result, NULL);
    result->execution_result = NULL;
    crisol__agent__v1__receipt__free_unpacked(result->receipt, NULL);
    result->receipt = NULL;
}
