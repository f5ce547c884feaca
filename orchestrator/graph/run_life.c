/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/clock.h"
#include "common/err.h"
#include "orchestrator/graph/budget.h"
#include "orchestrator/graph/call.h"
#include "orchestrator/graph/checks.h"
#include "orchestrator/graph/event_log.h"
#include "orchestrator/graph/journal.h"
#include "orchestrator/graph/run.h"
#include "orchestrator/graph/spans.h"
#include "orchestrator/graph/terms.h"
#include "orchestrator/graph/tool.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sys/random.h>

/* getrandom(2) of so few bytes neither blocks after boot nor comes back short. */
void agt_run_make_id(char id[static 33])
{
    static const char digits[] = "0123456789abcdef";
    uint8_t bytes[16] = {0};

    (void)!getrandom(bytes, sizeof(bytes), 0);
    for (size_t i = 0; i < sizeof(bytes); i++) {
        id[2 * i] = digits[bytes[i] >> 4];
        id[2 * i + 1] = digits[bytes[i] & 15];
    }
    id[32] = '\0';
}

static void free_attempt(struct agt_attempt *attempt)
{
    free(attempt->summary);
    free(attempt->feedback);
    agt_files_done(&attempt->files);
    free(attempt->diff);
    if (attempt->execution)
        crisol__sandbox__v1__execute_result__free_unpacked(attempt->execution, NULL);
    free(attempt->stdout_text);
    free(attempt->stderr_text);
    free(attempt->verification);
}

static void free_text(char **text)
{
    free(*text);
    *text = NULL;
}

void agt_run_shed(struct agt_run *run)
{
    while (run->attempt_count > 0)
        free_attempt(&run->attempts[--run->attempt_count]);
    free(run->attempts);
    run->attempts = NULL;
    run->attempt_room = 0;
    run->tools = agt_tools_free(run->tools);
    agt_list_done(&run->errors);
    agt_list_done(&run->warnings);
    agt_list_done(&run->models_served);
    agt_files_done(&run->files);
    if (run->execution)
        crisol__sandbox__v1__execute_result__free_unpacked(run->execution, NULL);
    run->execution = NULL;
    free_text(&run->frozen_tests);
    free_text(&run->plan);
    free_text(&run->diff);
    free_text(&run->complaint);
    free_text(&run->stall_note);
    free_text(&run->stdout_text);
    free_text(&run->stderr_text);
    agt_receipt_done(&run->receipt);
}

static void free_run(struct agt_run *run)
{
    agt_run_shed(run);
    if (run->limits)
        crisol__sandbox__v1__limits__free_unpacked(run->limits, NULL);
    crisol__agent__v1__task_terms__free_unpacked(run->terms, NULL);
    (void)agt_checks_free(run->checks);
    free(run->task);
    free(run->model);
    free(run->model_requested);
    free(run->caller);
    free(run->key);
    agt_list_done(&run->hints);
    (void)agt_journal_free(run->journal);
    free(run->crossings);
    free(run->failure);
    free(run->cancel_mail); /* it holds no reference before it is posted */
    (void)agt_event_log_unref(run->log);
    (void)pthread_mutex_destroy(&run->lock);
    free(run);
}

/* The name that is in force. */
static const char *model_name(struct agt_engine *engine, const struct agt_run_spec *spec)
{
    const struct agt_model *model = agt_engine_options(engine)->model;

    if (spec->model_requested)
        return spec->model_requested;
    return spec->model && spec->model[0] ? spec->model : model->ops->default_model(model);
}

/* NULL is copied as "". */
static bool copy(char **to, const char *from)
{
    *to = strdup(from ? from : "");
    return *to != NULL;
}

/* What the run keeps of its spec as messages. */
static bool unpack(struct agt_run *run, const struct agt_run_spec *spec)
{
    if (spec->sandbox_limits)
        run->limits = crisol__sandbox__v1__limits__unpack(NULL, spec->sandbox_limits_size,
                                                          spec->sandbox_limits);
    if (spec->terms)
        run->terms = crisol__agent__v1__task_terms__unpack(NULL, spec->terms_size, spec->terms);
    return (run->limits || !spec->sandbox_limits) && (run->terms || !spec->terms);
}

static bool copy_hints(struct agt_run *run, const struct agt_run_spec *spec)
{
    if (spec->hint_count == 0)
        return true;
    run->hints.items = calloc(spec->hint_count, sizeof(char *));
    if (!run->hints.items)
        return false;
    run->hints.room = spec->hint_count;
    for (size_t i = 0; i < spec->hint_count; i++) {
        if (!copy(&run->hints.items[i], spec->hints[i]))
            return false;
        run->hints.count++;
    }
    return true;
}

/* All that needs memory. */
static bool fill(struct agt_run *run, const struct agt_run_spec *spec)
{
    run->log = agt_event_log_new(run->id);
    run->crossings = calloc(agt_agent_graph.edge_count, sizeof(*run->crossings));
    run->cancel_mail = agt_mail_new(AGT_MAIL_CANCEL, NULL, NULL, 0);
    return run->log && run->crossings && run->cancel_mail && copy(&run->task, spec->task) &&
           copy(&run->model, spec->model) &&
           copy(&run->model_requested, model_name(run->engine, spec)) &&
           copy(&run->caller, spec->caller) && copy(&run->key, spec->key) &&
           copy_hints(run, spec) && unpack(run, spec);
}

/* A run of the store keeps those that it began with. */
static void set_stall_rules(struct agt_run *run, const struct agt_run_spec *spec)
{
    const struct agt_engine_options *options = agt_engine_options(run->engine);
    const struct agt_stall_rules stored = {spec->stall_same_code, spec->stall_same_failure};
    const struct agt_stall_rules set = {options->stall_same_code, options->stall_same_failure};

    agt_stall_set_rules(run->terms, spec->run_id ? &stored : &set, &run->stall_rules);
}

int agt_run_new(struct agt_engine *engine, const struct agt_run_spec *spec,
                struct agt_run **ret_run)
{
    struct agt_run *run = calloc(1, sizeof(*run));

    if (!run)
        return -ENOMEM;
    run->refs = 1;
    (void)pthread_mutex_init(&run->lock, NULL);
    run->engine = engine;
    if (spec->run_id)
        (void)memccpy(run->id, spec->run_id, '\0', sizeof(run->id) - 1);
    else
        agt_run_make_id(run->id);
    run->iterations_asked = spec->max_iterations;
    run->verify_asked = spec->verify;
    run->interrupts = spec->interrupts;
    run->has_numbered_checks = !spec->run_id || spec->has_numbered_checks;
    run->format = spec->run_id ? spec->format : AGT_JOURNAL_FORMAT;
    run->damaged = spec->damaged;
    run->usage = (Crisol__Agent__V1__ModelUsage)CRISOL__AGENT__V1__MODEL_USAGE__INIT;
    run->max_iterations = spec->max_iterations ? spec->max_iterations : AGT_ITERATIONS_DEFAULT;
    run->started_ns = cr_clock_mono_ns();
    run->last_event_ns = run->started_ns;
    agt_spans_begin_run(run);
    if (!fill(run, spec)) {
        free_run(run);
        return -ENOMEM;
    }
    run->verify = agt_terms_level(run->terms, spec->verify);
    agt_budget_set_price(run, spec);
    set_stall_rules(run, spec);
    *ret_run = run;
    return 0;
}

struct agt_run *agt_run_ref(struct agt_run *run)
{
    (void)__atomic_fetch_add(&run->refs, 1, __ATOMIC_RELAXED);
    return run;
}

struct agt_run *agt_run_unref(struct agt_run *run)
{
    if (run && __atomic_fetch_sub(&run->refs, 1, __ATOMIC_ACQ_REL) == 1)
        free_run(run);
    return NULL;
}

const char *agt_run_id(const struct agt_run *run)
{
    return run->id;
}

void agt_run_cancel(struct agt_run *run)
{
    (void)pthread_mutex_lock(&run->lock);
    if (run->engine && run->cancel_mail) {
        run->cancel_mail->run = agt_run_ref(run);
        agt_engine_post(run->engine, cr_take_ptr(&run->cancel_mail));
    }
    (void)pthread_mutex_unlock(&run->lock);
}

bool agt_run_has_ended(const struct agt_run *run)
{
    return agt_event_log_is_ended(run->log);
}

bool agt_run_is_left(const struct agt_run *run)
{
    return __atomic_load_n(&run->is_suspended, __ATOMIC_ACQUIRE);
}

uint64_t agt_run_fence(const struct agt_run *run)
{
    return agt_journal_fence(run->journal);
}

void agt_run_leave(struct agt_run *run)
{
    struct agt_mail *mail;

    (void)pthread_mutex_lock(&run->lock);
    mail = run->engine ? agt_mail_new(AGT_MAIL_LEAVE, run, NULL, 0) : NULL;
    if (mail) /* else with the next look of the store */
        agt_engine_post(run->engine, mail);
    (void)pthread_mutex_unlock(&run->lock);
}

const char *agt_run_twin(const struct agt_run *run, bool *ret_is_same)
{
    if (!agt_run_is_left(run) || !run->twin_id[0])
        return NULL;
    *ret_is_same = run->is_twin_same;
    return run->twin_id;
}

struct agt_event *agt_run_last_event(const struct agt_run *run)
{
    return agt_event_log_last(run->log);
}

uint32_t agt_run_seq(const struct agt_run *run)
{
    struct agt_event *newest = agt_event_log_newest(run->log);
    uint32_t seq = newest ? newest->seq : 0;

    (void)agt_event_unref(newest);
    return seq;
}

size_t agt_run_bytes(const struct agt_run *run)
{
    return agt_event_log_bytes(run->log);
}

int agt_watch_new(struct agt_run *run, uint32_t from_seq, void (*notify)(void *user), void *user,
                  struct agt_watch **ret_watch)
{
    return agt_event_log_watch(run->log, from_seq, notify, user, ret_watch);
}

const struct agt_attempt *agt_run_last_attempt(const struct agt_run *run)
{
    return run->attempt_count > 0 ? &run->attempts[run->attempt_count - 1] : NULL;
}

/* False: out of memory. */
static bool make_room(struct agt_list *list)
{
    size_t room = list->room > 0 ? 2 * list->room : 4;
    char **items;

    if (list->count < list->room)
        return true;
    items = reallocarray(list->items, room, sizeof(*items));
    if (!items)
        return false;
    list->items = items;
    list->room = room;
    return true;
}

void agt_list_add(struct agt_list *list, const char *format, ...)
{
    char *text = NULL;
    va_list args;

    if (list->count == AGT_LIST_MAX || !make_room(list))
        return; /* the rules of the nodes make far fewer */
    va_start(args, format);
    if (vasprintf(&text, format, args) < 0)
        text = NULL;
    va_end(args);
    if (text && list->count > 0 && strcmp(list->items[list->count - 1], text) == 0) {
        free(text);
        text = NULL;
    }
    if (text)
        list->items[list->count++] = text;
}

void agt_list_done(struct agt_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        free(list->items[i]);
    free(list->items);
    *list = (struct agt_list){.items = NULL};
}
