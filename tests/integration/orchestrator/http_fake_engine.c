/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/graph/engine.h"
#include "rpc/status.h"
#include "tests/harness/test.h"
#include "tests/integration/orchestrator/http_fake_counts.h"
#include "tests/integration/orchestrator/http_fakes.h"

#include <crisol/agent/v1/agent.pb-c.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EVENTS_MAX 512
#define RUNS_MAX 512

struct agt_run {
    struct agt_engine *engine;
    char id[33];
    atomic_uint refs;
    pthread_mutex_t lock; /* guards what follows */
    struct agt_event *events[EVENTS_MAX];
    uint32_t event_count;
    uint32_t seq;
    atomic_bool has_ended;
    struct agt_watch *watches;
};

struct agt_watch {
    struct agt_run *run;
    struct agt_watch *next;
    uint32_t position;
    void (*notify)(void *user);
    void *user;
};

struct agt_engine {
    pthread_mutex_t lock; /* guards what follows */
    struct agt_run *runs[RUNS_MAX];
    uint32_t run_count;
};

struct fake_atomic_counts fake_now;

struct fake_counts fake_counts(void)
{
    return (struct fake_counts){
        .runs_live = atomic_load(&fake_now.runs_live),
        .runs_cancelled = atomic_load(&fake_now.runs_cancelled),
        .watches_live = atomic_load(&fake_now.watches_live),
        .executions_live = atomic_load(&fake_now.executions_live),
        .executions_cancelled = atomic_load(&fake_now.executions_cancelled),
        .executions_ended = atomic_load(&fake_now.executions_ended),
    };
}

struct agt_event *agt_event_ref(struct agt_event *event)
{
    __atomic_fetch_add(&event->refs, 1, __ATOMIC_SEQ_CST);
    return event;
}

struct agt_event *agt_event_unref(struct agt_event *event)
{
    if (event && __atomic_fetch_sub(&event->refs, 1, __ATOMIC_SEQ_CST) == 1)
        free(event);
    return NULL;
}

/* ---- runs ---- */

static void add_event(struct agt_run *run, Crisol__Agent__V1__RunEvent *message, bool is_state)
{
    struct agt_event *event;
    size_t size;

    message->seq = is_state ? ++run->seq : run->seq;
    message->iteration = 1;
    size = crisol__agent__v1__run_event__get_packed_size(message);
    event = calloc(1, sizeof(*event) + size);
    assert_non_null(event);
    assert_true(run->event_count < EVENTS_MAX);
    event->refs = 1;
    event->seq = message->seq;
    event->is_state = is_state;
    event->is_last = message->event_case == CRISOL__AGENT__V1__RUN_EVENT__EVENT_RESULT;
    event->size = (uint32_t)size;
    (void)crisol__agent__v1__run_event__pack(message, event->packed);
    run->events[run->event_count++] = event;
}

static void add_state(struct agt_run *run)
{
    Crisol__Agent__V1__RunEvent event = CRISOL__AGENT__V1__RUN_EVENT__INIT;
    Crisol__Agent__V1__NodeStarted node = CRISOL__AGENT__V1__NODE_STARTED__INIT;

    event.event_case = CRISOL__AGENT__V1__RUN_EVENT__EVENT_NODE_STARTED;
    event.node_started = &node;
    add_event(run, &event, true);
}

static void add_delta(struct agt_run *run, size_t size)
{
    Crisol__Agent__V1__RunEvent event = CRISOL__AGENT__V1__RUN_EVENT__INIT;
    Crisol__Agent__V1__ModelDelta delta = CRISOL__AGENT__V1__MODEL_DELTA__INIT;
    char *text = malloc(size + 1);

    assert_non_null(text);
    memset(text, 'x', size);
    text[size] = '\0';
    delta.text = text;
    event.event_case = CRISOL__AGENT__V1__RUN_EVENT__EVENT_MODEL_DELTA;
    event.model_delta = &delta;
    add_event(run, &event, false);
    free(text);
}

static void add_result(struct agt_run *run)
{
    Crisol__Agent__V1__RunEvent event = CRISOL__AGENT__V1__RUN_EVENT__INIT;
    Crisol__Agent__V1__RunResult result = CRISOL__AGENT__V1__RUN_RESULT__INIT;
    char task[] = "the task";

    result.task = task;
    result.status = CRISOL__AGENT__V1__RUN_STATUS__RUN_STATUS_SUCCESS;
    result.iterations = 2;
    event.event_case = CRISOL__AGENT__V1__RUN_EVENT__EVENT_RESULT;
    event.result = &result;
    add_event(run, &event, true);
    run->has_ended = true;
}

static void fill_run(struct agt_run *run, const char *task)
{
    add_state(run);
    if (strcmp(task, "hang") == 0)
        return;
    add_delta(run, 10);
    add_state(run);
    if (strcmp(task, "bulk") == 0) {
        for (int i = 0; i < 400; i++)
            add_delta(run, (size_t)32 << 10);
    }
    add_delta(run, 10);
    add_result(run);
}

struct agt_run *agt_run_ref(struct agt_run *run)
{
    atomic_fetch_add(&run->refs, 1);
    return run;
}

struct agt_run *agt_run_unref(struct agt_run *run)
{
    if (!run || atomic_fetch_sub(&run->refs, 1) != 1)
        return NULL;
    for (uint32_t i = 0; i < run->event_count; i++)
        agt_event_unref(run->events[i]);
    (void)pthread_mutex_destroy(&run->lock);
    free(run);
    atomic_fetch_sub(&fake_now.runs_live, 1);
    return NULL;
}

const char *agt_run_id(const struct agt_run *run)
{
    return run->id;
}

bool agt_run_has_ended(const struct agt_run *run)
{
    return run->has_ended;
}

struct agt_event *agt_run_last_event(const struct agt_run *run)
{
    return run->has_ended ? agt_event_ref(run->events[run->event_count - 1]) : NULL;
}

size_t agt_run_bytes(const struct agt_run *run)
{
    return run->event_count;
}

/* Adds what `add` adds, unless the run has ended, and tells who watches. */
static bool extend(struct agt_run *run, void (*add)(struct agt_run *run))
{
    bool is_live;

    (void)pthread_mutex_lock(&run->lock);
    is_live = !run->has_ended;
    if (is_live) {
        add(run);
        /* Under the lock, so that a watch is not freed meanwhile; notify only posts. */
        for (struct agt_watch *watch = run->watches; watch; watch = watch->next)
            watch->notify(watch->user);
    }
    (void)pthread_mutex_unlock(&run->lock);
    return is_live;
}

void agt_run_cancel(struct agt_run *run)
{
    if (extend(run, add_result))
        atomic_fetch_add(&fake_now.runs_cancelled, 1);
}

/* ---- engine ---- */

struct agt_engine *fake_engine_new(void)
{
    struct agt_engine *engine = calloc(1, sizeof(*engine));

    assert_non_null(engine);
    (void)pthread_mutex_init(&engine->lock, NULL);
    return engine;
}

void fake_engine_free(struct agt_engine *engine)
{
    for (uint32_t i = 0; i < engine->run_count; i++)
        agt_run_unref(engine->runs[i]);
    (void)pthread_mutex_destroy(&engine->lock);
    free(engine);
}

static void extend_all(struct agt_engine *engine, void (*add)(struct agt_run *run))
{
    (void)pthread_mutex_lock(&engine->lock);
    for (uint32_t i = 0; i < engine->run_count; i++)
        (void)extend(engine->runs[i], add);
    (void)pthread_mutex_unlock(&engine->lock);
}

void fake_push(struct agt_engine *engine)
{
    extend_all(engine, add_state);
}

void fake_finish(struct agt_engine *engine)
{
    extend_all(engine, add_result);
}

static bool is_refused(const char *task, struct rpc_status *status)
{
    if (!task[0])
        rpc_status_add_violation(status, "task", "must not be empty");
    else if (strcmp(task, "no key") == 0)
        rpc_status_set(status, RPC_FAILED_PRECONDITION, "set GEMINI_API_KEY");
    else if (strcmp(task, "full") == 0)
        rpc_status_set(status, RPC_RESOURCE_EXHAUSTED, "too many runs");
    else if (strcmp(task, "draining") == 0)
        rpc_status_set(status, RPC_UNAVAILABLE, "shutting down");
    return status->code != RPC_OK;
}

int agt_engine_start(struct agt_engine *engine, const struct agt_run_spec *spec,
                     struct agt_run **ret_run, struct rpc_status *ret_status)
{
    struct agt_run *run;

    if (is_refused(spec->task, ret_status))
        return -EINVAL;
    run = calloc(1, sizeof(*run));
    assert_non_null(run);
    run->engine = engine;
    atomic_init(&run->refs, 2);
    (void)pthread_mutex_init(&run->lock, NULL);
    fill_run(run, spec->task);
    atomic_fetch_add(&fake_now.runs_live, 1);
    (void)pthread_mutex_lock(&engine->lock);
    assert_true(engine->run_count < RUNS_MAX);
    (void)snprintf(run->id, sizeof(run->id), "%032x", engine->run_count + 1);
    engine->runs[engine->run_count++] = run;
    (void)pthread_mutex_unlock(&engine->lock);
    *ret_run = run;
    return 0;
}

uint32_t agt_engine_live_runs(const struct agt_engine *engine)
{
    (void)engine;
    return fake_counts().runs_live;
}

uint32_t agt_node_bit(int node)
{
    return node > 0 && node < 31 ? 1U << node : 1U;
}

/* At once, and on the caller's thread. */
int agt_engine_list_models(struct agt_engine *engine, agt_engine_on_models on_models, void *user,
                           struct rpc_status *ret_status)
{
    static const char *const names[] = {"gemini-fake", "gemini-other"};
    const struct rpc_status ok = RPC_STATUS_INIT;

    (void)engine;
    (void)ret_status;
    on_models(user, &ok, names, sizeof(names) / sizeof(names[0]));
    return 0;
}

/* ---- watches ---- */

int agt_watch_new(struct agt_run *run, uint32_t from_seq, void (*notify)(void *user), void *user,
                  struct agt_watch **ret_watch)
{
    struct agt_watch *watch = calloc(1, sizeof(*watch));

    (void)from_seq;
    assert_non_null(watch);
    watch->run = agt_run_ref(run);
    watch->notify = notify;
    watch->user = user;
    (void)pthread_mutex_lock(&run->lock);
    watch->next = run->watches;
    run->watches = watch;
    (void)pthread_mutex_unlock(&run->lock);
    atomic_fetch_add(&fake_now.watches_live, 1);
    *ret_watch = watch;
    return 0;
}

/* Its runs tell their readers of everything: those that want the last event alone have to bear it.
 */
void agt_watch_only_last(struct agt_watch *watch)
{
    (void)watch;
}

int agt_watch_next(struct agt_watch *watch, struct agt_event **ret_event)
{
    struct agt_run *run = watch->run;
    int r = 0;

    (void)pthread_mutex_lock(&run->lock);
    if (watch->position < run->event_count) {
        *ret_event = agt_event_ref(run->events[watch->position++]);
        r = 1;
    } else if (run->has_ended) {
        r = -EPIPE;
    }
    (void)pthread_mutex_unlock(&run->lock);
    return r;
}

struct agt_watch *agt_watch_free(struct agt_watch *watch)
{
    struct agt_run *run;

    if (!watch)
        return NULL;
    run = watch->run;
    (void)pthread_mutex_lock(&run->lock);
    for (struct agt_watch **at = &run->watches; *at; at = &(*at)->next) {
        if (*at == watch) {
            *at = watch->next;
            break;
        }
    }
    (void)pthread_mutex_unlock(&run->lock);
    agt_run_unref(run);
    free(watch);
    atomic_fetch_sub(&fake_now.watches_live, 1);
    return NULL;
}
