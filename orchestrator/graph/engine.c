/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/graph/engine.h"

#include "common/clock.h"
#include "common/err.h"
#include "common/log.h"
#include "common/turns.h"
#include "orchestrator/graph/admission.h"
#include "orchestrator/graph/budget.h"
#include "orchestrator/graph/call.h"
#include "orchestrator/graph/event_log.h"
#include "orchestrator/graph/journal.h"
#include "orchestrator/graph/run.h"

#include <assert.h>
#include <malloc.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include <sys/prctl.h>

#define MAX_RUNS_DEFAULT 10000
#define RUN_TIMEOUT_DEFAULT_MS 1800000
#define RETRY_BASE_DEFAULT_MS 500
#define HEARTBEAT_DEFAULT_MS 15000
/* Memory is given back after so many runs, and at most so often. */
#define TRIM_RUNS 500U
#define TRIM_EVERY_NS (5 * CR_NS_PER_S)

struct agt_engine {
    struct agt_engine_options options; /* with the defaults filled in */
    struct cr_mailbox *mailbox;
    size_t mail_bytes; /* atomic: of deltas in the mailbox */
    pthread_t thread;
    struct agt_mail *stop_mail; /* made ahead; owned until posted */

    pthread_mutex_t lock; /* guards the next two */
    bool is_draining;
    uint32_t live_runs;   /* atomic, so that it can be read without the lock */
    pthread_cond_t ended; /* live_runs fell */
    atomic_uint_fast64_t turns;

    /* The engine's thread only. */
    struct agt_run *runs;
    struct agt_timers timers;
    int64_t due_ns; /* no run wants to be called before */
    uint32_t shed;  /* runs, since memory was given back */
    int64_t trim_at_ns;
    bool is_stopping;
};

int64_t agt_engine_node_timeout_ns(const struct agt_engine *engine, enum agt_node node)
{
    uint32_t own_ms = engine->options.node_timeout_ms;

    return (own_ms ? own_ms : agt_node_policy(node)->timeout_ms) * CR_NS_PER_MS;
}

void agt_engine_set_times(const struct agt_engine *engine, struct agt_run *run)
{
    int64_t wall_ms = agt_budget_wall_ms(run, engine->options.run_timeout_ms);

    run->has_wall_budget = wall_ms < (int64_t)engine->options.run_timeout_ms;
    run->deadline_ns = run->started_ns + wall_ms * CR_NS_PER_MS;
    run->heartbeat_ns = engine->options.heartbeat_ms * CR_NS_PER_MS;
}

void agt_engine_count_in(struct agt_engine *engine)
{
    (void)__atomic_fetch_add(&engine->live_runs, 1, __ATOMIC_RELEASE);
}

const struct agt_engine_options *agt_engine_options(const struct agt_engine *engine)
{
    return &engine->options;
}

void agt_engine_post(struct agt_engine *engine, struct agt_mail *take_mail)
{
    /* Urgent mail passes the cap; of each kind there is a bounded number per run. */
    (void)cr_mailbox_post(engine->mailbox, &take_mail->link, true);
}

bool agt_engine_try_post(struct agt_engine *engine, struct agt_mail *take_mail)
{
    size_t size = take_mail->size;
    size_t before = __atomic_fetch_add(&engine->mail_bytes, size, __ATOMIC_RELAXED);

    if (before + size <= AGT_MAIL_BYTES_MAX &&
        cr_mailbox_post(engine->mailbox, &take_mail->link, false) == 0)
        return true;
    (void)__atomic_fetch_sub(&engine->mail_bytes, size, __ATOMIC_RELAXED);
    (void)agt_mail_free(take_mail);
    return false;
}

/* ---- the engine's thread ---- */

static void add_run(struct agt_engine *engine, struct agt_run *run)
{
    (void)agt_run_ref(run);
    run->next = engine->runs;
    if (engine->runs)
        engine->runs->previous = run;
    engine->runs = run;
    if (engine->is_stopping && !run->journal) /* it was let in just before */
        agt_run_stop(run, AGT_STOP_CANCEL);
    agt_run_begin(run);
    if (engine->is_stopping && run->journal)
        agt_run_suspend(run);
}

static void remove_run(struct agt_engine *engine, struct agt_run *run)
{
    agt_timers_set(&engine->timers, run, INT64_MAX);
    if (run->next)
        run->next->previous = run->previous;
    if (run->previous)
        run->previous->next = run->next;
    else
        engine->runs = run->next;
    run->next = NULL;
    run->previous = NULL;
    agt_journal_drop_all(run);
    if (!agt_run_has_ended(run)) /* it was left to the next process: nothing more comes here */
        agt_event_log_end(run->log);
    if (run->has_ended)
        agt_run_shed(run);
    engine->shed++;
    /* From here on a cancel is too late, and nobody reaches the engine through the run. */
    (void)pthread_mutex_lock(&run->lock);
    run->engine = NULL;
    (void)pthread_mutex_unlock(&run->lock);
    (void)agt_run_unref(run);
    (void)pthread_mutex_lock(&engine->lock);
    (void)__atomic_fetch_sub(&engine->live_runs, 1, __ATOMIC_RELEASE);
    (void)pthread_cond_broadcast(&engine->ended);
    (void)pthread_mutex_unlock(&engine->lock);
}

/* After anything has happened to a run. */
static void settle(struct agt_engine *engine, struct agt_run *run)
{
    agt_journal_settle(run);
    if (run->has_ended) {
        if (agt_journal_is_idle(run->journal))
            remove_run(engine, run);
        return;
    }
    agt_timers_set(&engine->timers, run, agt_run_due_ns(run));
    if (run->timer.tick > 0 && run->timer.tick * AGT_TIMER_TICK_NS < engine->due_ns)
        engine->due_ns = run->timer.tick * AGT_TIMER_TICK_NS;
}

static void stop_all(struct agt_engine *engine)
{
    struct agt_run *next;

    engine->is_stopping = true;
    for (struct agt_run *run = engine->runs; run; run = next) {
        next = run->next;
        if (run->journal)
            agt_run_suspend(run);
        else
            agt_run_stop(run, AGT_STOP_CANCEL);
        settle(engine, run);
    }
}

static bool is_delta(const struct agt_mail *mail)
{
    return mail->kind == AGT_MAIL_MODEL_DELTA || mail->kind == AGT_MAIL_SANDBOX_OUTPUT;
}

static void take_mail(struct agt_engine *engine, struct agt_mail *mail)
{
    struct agt_run *run = mail->run;

    if (is_delta(mail))
        (void)__atomic_fetch_sub(&engine->mail_bytes, mail->size, __ATOMIC_RELAXED);
    if (mail->kind == AGT_MAIL_STOP) {
        stop_all(engine);
        return;
    }
    if (run->has_ended && mail->kind != AGT_MAIL_DURABLE)
        return; /* a cancel that came too late */
    (void)cr_trace_enter(&run->trace);
    if (mail->kind == AGT_MAIL_START)
        add_run(engine, run);
    else
        agt_run_on_mail(run, mail);
    settle(engine, run);
    (void)cr_trace_enter(NULL);
}

static void take_mails(struct agt_engine *engine)
{
    struct cr_mail *next;

    for (struct cr_mail *mail = cr_mailbox_take_all(engine->mailbox); mail; mail = next) {
        next = mail->next;
        take_mail(engine, (struct agt_mail *)(void *)mail);
        (void)agt_mail_free((struct agt_mail *)(void *)mail);
    }
}

static void run_timers(struct agt_engine *engine, int64_t now_ns)
{
    struct agt_run *run;

    while ((run = agt_timers_take(&engine->timers, now_ns))) {
        (void)cr_trace_enter(&run->trace);
        if (agt_run_due_ns(run) <= now_ns)
            agt_run_on_time(run, now_ns);
        settle(engine, run);
        (void)cr_trace_enter(NULL);
    }
    engine->due_ns = agt_timers_due_ns(&engine->timers);
}

/*
 * What thousands of calls have freed lies between what is kept of the ended runs: the C library
 * gives none of it back by itself (seen: 420 MiB of which 150 were in use).
 */
static void give_back(struct agt_engine *engine, int64_t now_ns)
{
    if (engine->shed < TRIM_RUNS || now_ns < engine->trim_at_ns)
        return;
    engine->shed = 0;
    engine->trim_at_ns = now_ns + TRIM_EVERY_NS;
    (void)malloc_trim(0);
    cr_log_debug("gave memory back ms=%lld",
                 (long long)((cr_clock_mono_ns() - now_ns) / CR_NS_PER_MS));
}

static int timeout_ms(const struct agt_engine *engine)
{
    int64_t due_ns = engine->due_ns;
    int64_t left_ns;

    if (engine->is_stopping)
        return 20; /* a run that was let in and then had no memory to start sends no mail */
    if (engine->shed >= TRIM_RUNS && engine->trim_at_ns < due_ns)
        due_ns = engine->trim_at_ns;
    if (due_ns == INT64_MAX)
        return -1;
    left_ns = due_ns - cr_clock_mono_ns();
    return left_ns <= 0
               ? 0
               : (int)(left_ns / CR_NS_PER_MS < 60000 ? left_ns / CR_NS_PER_MS + 1 : 60000);
}

static void *engine_main(void *user)
{
    struct agt_engine *engine = user;
    struct pollfd waiter = {.fd = cr_mailbox_fd(engine->mailbox), .events = POLLIN};

    (void)prctl(PR_SET_NAME, "engine", 0, 0, 0);
    while (!engine->is_stopping || agt_engine_live_runs(engine) > 0) {
        int64_t now_ns;

        if (poll(&waiter, 1, cr_turn_ms(timeout_ms(engine))) < 0 && errno != EINTR)
            cr_log_error("engine: poll failed errno=%d", errno);
        (void)atomic_fetch_add(&engine->turns, 1);
        take_mails(engine);
        now_ns = cr_clock_mono_ns();
        if (now_ns >= engine->due_ns)
            run_timers(engine, now_ns);
        give_back(engine, now_ns);
    }
    return NULL;
}

/* ---- life ---- */

static void fill_in(struct agt_engine_options *options)
{
    if (options->max_runs == 0)
        options->max_runs = MAX_RUNS_DEFAULT;
    if (options->run_timeout_ms == 0)
        options->run_timeout_ms = RUN_TIMEOUT_DEFAULT_MS;
    if (options->retry_base_ms == 0)
        options->retry_base_ms = RETRY_BASE_DEFAULT_MS;
    if (options->heartbeat_ms == 0)
        options->heartbeat_ms = HEARTBEAT_DEFAULT_MS;
}

/* A condition on the monotonic clock: a drain must not follow a jump of the wall clock. */
static void init_condition(pthread_cond_t *condition)
{
    pthread_condattr_t attributes;

    (void)pthread_condattr_init(&attributes);
    (void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    (void)pthread_cond_init(condition, &attributes);
    (void)pthread_condattr_destroy(&attributes);
}

static void free_parts(struct agt_engine *engine)
{
    (void)pthread_cond_destroy(&engine->ended);
    (void)pthread_mutex_destroy(&engine->lock);
    (void)cr_mailbox_free(engine->mailbox);
    (void)agt_mail_free(engine->stop_mail);
    free(engine);
}

int agt_engine_new(const struct agt_engine_options *options, struct agt_engine **ret_engine,
                   struct cr_err *err)
{
    struct agt_engine *engine;
    int r;

    r = agt_graph_check(&agt_agent_graph, err);
    if (r < 0)
        return r;
    engine = calloc(1, sizeof(*engine));
    if (!engine)
        return cr_err_set(err, ENOMEM, "out of memory for the engine");
    engine->options = *options;
    fill_in(&engine->options);
    engine->due_ns = INT64_MAX;
    (void)pthread_mutex_init(&engine->lock, NULL);
    init_condition(&engine->ended);
    engine->stop_mail = agt_mail_new(AGT_MAIL_STOP, NULL, NULL, 0);
    r = engine->stop_mail ? cr_mailbox_new(65536, &engine->mailbox, err)
                          : cr_err_set(err, ENOMEM, "out of memory for the engine");
    if (r == 0) {
        r = -pthread_create(&engine->thread, NULL, engine_main, engine);
        if (r < 0)
            (void)cr_err_sys(err, -r, "start the engine's thread");
    }
    if (r < 0) {
        free_parts(engine);
        return r;
    }
    *ret_engine = engine;
    return 0;
}

struct agt_engine *agt_engine_free(struct agt_engine *engine)
{
    if (!engine)
        return NULL;
    (void)pthread_mutex_lock(&engine->lock);
    engine->is_draining = true;
    (void)pthread_mutex_unlock(&engine->lock);
    agt_engine_post(engine, engine->stop_mail);
    engine->stop_mail = NULL;
    (void)pthread_join(engine->thread, NULL);
    take_mails(engine); /* cancels that came too late */
    free_parts(engine);
    return NULL;
}

bool agt_engine_drain(struct agt_engine *engine, int grace_ms)
{
    int64_t until_ns = cr_clock_mono_ns() + grace_ms * CR_NS_PER_MS;
    struct timespec until = {
        .tv_sec = until_ns / CR_NS_PER_S,
        .tv_nsec = until_ns % CR_NS_PER_S,
    };
    bool is_idle;

    (void)pthread_mutex_lock(&engine->lock);
    engine->is_draining = true;
    while (engine->live_runs > 0 &&
           pthread_cond_timedwait(&engine->ended, &engine->lock, &until) != ETIMEDOUT)
        ;
    is_idle = engine->live_runs == 0;
    (void)pthread_mutex_unlock(&engine->lock);
    return is_idle;
}

uint32_t agt_engine_live_runs(const struct agt_engine *engine)
{
    return __atomic_load_n(&engine->live_runs, __ATOMIC_ACQUIRE);
}

uint64_t agt_engine_turns(const struct agt_engine *engine)
{
    return atomic_load(&engine->turns);
}

/* Counts the run in, or says why it may not start. */
static int admit(struct agt_engine *engine, struct rpc_status *ret_status)
{
    struct agt_store *store = engine->options.store;
    int r = 0;

    (void)pthread_mutex_lock(&engine->lock);
    if (engine->is_draining) {
        rpc_status_set_draining(ret_status);
        r = -ESHUTDOWN;
    } else if (store && !store->ops->is_accepting(store)) {
        rpc_status_set(
            ret_status, RPC_RESOURCE_EXHAUSTED,
            "the journal of runs takes no new one now: its disk is nearly full, or its database "
            "is out of reach; try again later");
        ret_status->retry_after_ms = 30000;
        r = -ENOSPC;
    } else if (engine->live_runs >= engine->options.max_runs) {
        rpc_status_set(ret_status, RPC_RESOURCE_EXHAUSTED,
                       "%u runs are going on, which is the most; try again later",
                       engine->live_runs);
        ret_status->retry_after_ms = 5000;
        r = -EAGAIN;
    } else {
        (void)__atomic_fetch_add(&engine->live_runs, 1, __ATOMIC_RELEASE);
    }
    (void)pthread_mutex_unlock(&engine->lock);
    return r;
}

static void dismiss(struct agt_engine *engine)
{
    (void)pthread_mutex_lock(&engine->lock);
    (void)__atomic_fetch_sub(&engine->live_runs, 1, __ATOMIC_RELEASE);
    (void)pthread_cond_broadcast(&engine->ended);
    (void)pthread_mutex_unlock(&engine->lock);
}

int agt_engine_check_room(struct agt_engine *engine, struct rpc_status *ret_status)
{
    int r = admit(engine, ret_status);

    if (r == 0)
        dismiss(engine);
    return r;
}

int agt_engine_start(struct agt_engine *engine, const struct agt_run_spec *spec,
                     struct agt_run **ret_run, struct rpc_status *ret_status)
{
    struct agt_run *run = NULL;
    struct agt_mail *mail = NULL;
    int r;

    r = agt_admission_check(engine->options.model, engine->options.sandbox, spec, ret_status);
    if (r == 0)
        r = admit(engine, ret_status);
    if (r < 0)
        return r;
    r = agt_run_new(engine, spec, &run);
    if (r == 0 && !agt_budget_is_payable(run, ret_status)) {
        (void)agt_run_unref(run);
        dismiss(engine);
        return -EINVAL;
    }
    if (r == 0 && engine->options.store)
        r = agt_journal_new(run, engine->options.store, true, AGT_STORE_FIRST_FENCE);
    if (r == 0)
        mail = agt_mail_new(AGT_MAIL_START, run, NULL, 0);
    if (!mail) {
        (void)agt_run_unref(run);
        dismiss(engine);
        rpc_status_set(ret_status, RPC_RESOURCE_EXHAUSTED, "out of memory; try again later");
        return -ENOMEM;
    }
    agt_engine_set_times(engine, run);
    agt_engine_post(engine, mail);
    *ret_run = run;
    return 0;
}
