/* SPDX-License-Identifier: Apache-2.0 */
#include "common/clock.h"
#include "common/err.h"
#include "common/hash.h"
#include "common/log.h"
#include "orchestrator/graph/engine.h"
#include "orchestrator/graph/export.h"
#include "orchestrator/runs/private.h"
#include "orchestrator/store/store.h"
#include "rpc/callers.h"
#include "rpc/status.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_ENDED_DEFAULT 1000
#define MAX_ENDED_BYTES_DEFAULT ((size_t)256 << 20)
#define MAX_ENDED_AGE_S_DEFAULT 86400
#define SWEEP_EVERY_NS (100 * CR_NS_PER_MS)
#define CALLER_RETRY_MS 5000

static struct agt_runs_entry **id_bucket(struct agt_runs *runs, const char *id)
{
    return &runs->by_id[cr_hash_text(CR_HASH_START, id) % BUCKETS];
}

static struct agt_runs_entry **key_bucket(struct agt_runs *runs, const char *caller,
                                          const char *key)
{
    return &runs->by_key[cr_hash_text(cr_hash_text(CR_HASH_START, caller), key) % BUCKETS];
}

static uint64_t hash_request(const struct agt_run_spec *spec)
{
    uint64_t hash = cr_hash_text(CR_HASH_START, spec->task);

    hash = cr_hash(hash, &spec->max_iterations, sizeof(spec->max_iterations));
    hash = cr_hash(hash, &spec->verify, sizeof(spec->verify));
    hash = cr_hash(hash, &spec->interrupts, sizeof(spec->interrupts));
    hash = cr_hash(hash, spec->terms ? spec->terms : "", spec->terms_size);
    hash = cr_hash_text(hash, spec->model ? spec->model : "");
    return cr_hash(hash, spec->sandbox_limits ? spec->sandbox_limits : "",
                   spec->sandbox_limits_size);
}

static void free_entry(struct agt_runs_entry *entry)
{
    (void)agt_run_unref(entry->run);
    free(entry->caller);
    free(entry->key);
    free(entry);
}

static struct agt_runs_entry *new_entry(const char *caller, const char *key,
                                        const struct agt_run_spec *spec)
{
    struct agt_runs_entry *entry = calloc(1, sizeof(*entry));

    if (!entry)
        return NULL;
    entry->request = hash_request(spec);
    entry->caller = strdup(caller);
    entry->key = key[0] ? strdup(key) : NULL;
    if (entry->caller && (entry->key || !key[0]))
        return entry;
    free_entry(entry);
    return NULL;
}

static void link_entry(struct agt_runs *runs, struct agt_runs_entry *entry)
{
    struct agt_runs_entry **bucket = id_bucket(runs, agt_run_id(entry->run));

    entry->number = ++runs->last_number;
    entry->older = runs->newest;
    if (runs->newest)
        runs->newest->newer = entry;
    else
        runs->oldest = entry;
    runs->newest = entry;
    entry->next_by_id = *bucket;
    *bucket = entry;
    if (!entry->key)
        return;
    bucket = key_bucket(runs, entry->caller, entry->key);
    entry->next_by_key = *bucket;
    *bucket = entry;
}

static void unlink_entry(struct agt_runs *runs, struct agt_runs_entry *entry)
{
    struct agt_runs_entry **link = id_bucket(runs, agt_run_id(entry->run));

    while (*link != entry)
        link = &(*link)->next_by_id;
    *link = entry->next_by_id;
    if (entry->key) {
        link = key_bucket(runs, entry->caller, entry->key);
        while (*link != entry)
            link = &(*link)->next_by_key;
        *link = entry->next_by_key;
    }
    *(entry->newer ? &entry->newer->older : &runs->newest) = entry->older;
    *(entry->older ? &entry->older->newer : &runs->oldest) = entry->newer;
}

static void free_batch(struct agt_store_batch *batch, int error)
{
    (void)error; /* it is there after a restart, and forgotten then */
    free(batch);
}

static void forget_stored(struct agt_store *store, const char *run_id)
{
    struct agt_store_batch *batch = store ? calloc(1, sizeof(*batch)) : NULL;

    if (!batch)
        return;
    (void)memccpy(batch->run_id, run_id, '\0', sizeof(batch->run_id) - 1);
    batch->is_forget = true;
    batch->on_done = free_batch;
    store->ops->append(store, batch);
}

void agt_runs_forget_entry(struct agt_runs *runs, struct agt_runs_entry *entry)
{
    if (!agt_run_is_left(entry->run))
        forget_stored(runs->options.store, agt_run_id(entry->run));
    unlink_entry(runs, entry);
    free_entry(entry);
}

/* The newest ended runs that fit are kept; whoever holds a reference keeps what it reads. */
static void sweep(struct agt_runs *runs, int64_t now_ns)
{
    int64_t age_ns = runs->options.max_ended_age_s * CR_NS_PER_S;
    uint32_t count = 0;
    size_t bytes = 0;
    struct agt_runs_entry *older;

    runs->next_sweep_ns = now_ns + SWEEP_EVERY_NS;
    for (struct agt_runs_entry *entry = runs->newest; entry; entry = older) {
        older = entry->older;
        if (entry->ended_ns == 0 && agt_run_has_ended(entry->run))
            entry->ended_ns = now_ns;
        if (entry->ended_ns == 0)
            continue;
        bytes += agt_run_bytes(entry->run);
        count++;
        if (count > runs->options.max_ended || bytes > runs->options.max_ended_bytes ||
            now_ns - entry->ended_ns >= age_ns) {
            agt_runs_forget_entry(runs, entry);
        }
    }
}

/* ---- life ---- */

int agt_runs_new(const struct agt_runs_options *options, struct agt_runs **ret_runs,
                 struct cr_err *err)
{
    const struct rpc_callers_limits limits = {.per_minute = options->caller_per_minute};
    const struct rpc_callers_limits exports = {.max_live = AGT_RUNS_EXPORTS_MAX};
    struct agt_runs *runs = calloc(1, sizeof(*runs));

    if (!runs)
        return cr_err_set(err, ENOMEM, "out of memory for the registry of runs");
    runs->options = *options;
    if (options->caller_per_minute > 0)
        runs->callers = rpc_callers_new(&limits);
    runs->exports = rpc_callers_new(&exports);
    if (!runs->exports || (options->caller_per_minute > 0 && !runs->callers)) {
        (void)rpc_callers_free(runs->exports);
        (void)rpc_callers_free(runs->callers);
        free(runs);
        return cr_err_set(err, ENOMEM, "out of memory for the registry of runs");
    }
    if (runs->options.max_ended == 0)
        runs->options.max_ended = MAX_ENDED_DEFAULT;
    if (runs->options.max_ended_bytes == 0)
        runs->options.max_ended_bytes = MAX_ENDED_BYTES_DEFAULT;
    if (runs->options.max_ended_age_s == 0)
        runs->options.max_ended_age_s = MAX_ENDED_AGE_S_DEFAULT;
    (void)pthread_mutex_init(&runs->lock, NULL);
    (void)pthread_cond_init(&runs->forked, NULL);
    *ret_runs = runs;
    return 0;
}

struct agt_runs *agt_runs_free(struct agt_runs *runs)
{
    struct agt_runs_entry *older;

    if (!runs)
        return NULL;
    agt_runs_quiesce(runs);
    (void)pthread_mutex_lock(&runs->lock);
    while (runs->forks > 0) /* the store gives up what it cannot do at once */
        (void)pthread_cond_wait(&runs->forked, &runs->lock);
    (void)pthread_mutex_unlock(&runs->lock);
    (void)pthread_cond_destroy(&runs->forked);
    for (struct agt_runs_entry *entry = runs->newest; entry; entry = older) {
        older = entry->older;
        free_entry(entry);
    }
    (void)rpc_callers_free(runs->exports);
    (void)rpc_callers_free(runs->callers);
    (void)pthread_mutex_destroy(&runs->lock);
    free(runs);
    return NULL;
}

struct agt_runs_entry *agt_runs_find_entry(struct agt_runs *runs, const char *run_id)
{
    struct agt_runs_entry *entry = *id_bucket(runs, run_id);

    while (entry && strcmp(agt_run_id(entry->run), run_id) != 0)
        entry = entry->next_by_id;
    return entry;
}

/* In place of what is known of the run, if it was left before. */
int agt_runs_on_loaded(void *user, struct agt_run *take_run, const struct agt_run_spec *spec)
{
    struct agt_runs *runs = user;
    struct agt_runs_entry *entry = new_entry(spec->caller, spec->key, spec);
    struct agt_runs_entry *before;

    if (!entry) {
        (void)agt_run_unref(take_run);
        return -ENOMEM;
    }
    entry->run = take_run;
    (void)pthread_mutex_lock(&runs->lock);
    before = agt_runs_find_entry(runs, agt_run_id(take_run));
    if (before) {
        if (agt_run_is_guest(before->run))
            agt_guest_leave(before->run); /* it goes on here: who reads it has to ask again */
        unlink_entry(runs, before);
        free_entry(before);
    }
    link_entry(runs, entry);
    (void)pthread_mutex_unlock(&runs->lock);
    return 0;
}

int agt_runs_load(struct agt_runs *runs, struct cr_err *err)
{
    struct agt_store *store = runs->options.store;
    int r = agt_engine_load(runs->options.engine, agt_runs_on_loaded, runs, err);

    if (r < 0)
        return r;
    agt_runs_sweep(runs);
    if (store)
        agt_runs_take_requests(runs);
    if (store && store->ops->watch)
        store->ops->watch(store, agt_runs_on_stored, runs);
    return 0;
}

void agt_runs_quiesce(struct agt_runs *runs)
{
    struct agt_store *store = runs->options.store;

    if (store && store->ops->watch)
        store->ops->watch(store, NULL, NULL);
}

void agt_runs_sweep(struct agt_runs *runs)
{
    (void)pthread_mutex_lock(&runs->lock);
    sweep(runs, cr_clock_mono_ns());
    (void)pthread_mutex_unlock(&runs->lock);
}

uint32_t agt_runs_live(const struct agt_runs *runs)
{
    return agt_engine_live_runs(runs->options.engine);
}

/* ---- starting ---- */

int agt_runs_out_of_memory(struct rpc_status *status)
{
    rpc_status_set(status, RPC_RESOURCE_EXHAUSTED, "out of memory; try again later");
    return -ENOMEM;
}

static int check_key(const char *key, struct rpc_status *status)
{
    if (strlen(key) <= AGT_RUNS_KEY_MAX)
        return 0;
    rpc_status_add_violation(status, "idempotency_key", "has %zu bytes; the most is %d",
                             strlen(key), AGT_RUNS_KEY_MAX);
    return -EINVAL;
}

static struct agt_runs_entry *find_key(struct agt_runs *runs, const char *caller, const char *key)
{
    struct agt_runs_entry *entry = *key_bucket(runs, caller, key);

    while (entry && (strcmp(entry->key, key) != 0 || strcmp(entry->caller, caller) != 0))
        entry = entry->next_by_key;
    return entry;
}

static int repeat(const struct agt_runs_entry *entry, const struct agt_run_spec *spec,
                  struct agt_run **ret_run, struct rpc_status *status)
{
    if (entry->request != hash_request(spec)) {
        rpc_status_set(status, RPC_ALREADY_EXISTS, AGT_RUNS_KEY_TAKEN);
        return -EEXIST;
    }
    *ret_run = agt_run_ref(entry->run);
    return 0;
}

/* Counts the runs of the caller that go on here, up to its limit. */
static bool has_room(const struct agt_runs *runs, const char *caller)
{
    uint32_t forks = agt_runs_count_forks(runs, caller);
    uint32_t left = runs->options.max_caller_live;

    if (forks >= left)
        return false;
    left -= forks;
    for (const struct agt_runs_entry *at = runs->newest; at; at = at->older) {
        if (strcmp(at->caller, caller) == 0 && !agt_run_has_ended(at->run) &&
            !agt_run_is_guest(at->run) && --left == 0)
            return false;
    }
    return true;
}

int agt_runs_check_quota(struct agt_runs *runs, const char *caller, int64_t now_ns,
                         struct rpc_status *status)
{
    int r;

    if (runs->options.max_caller_live > 0 && !has_room(runs, caller)) {
        rpc_status_set(status, RPC_RESOURCE_EXHAUSTED,
                       "one caller may have %u runs at one time; wait until one has ended",
                       runs->options.max_caller_live);
        (void)snprintf(status->reason, sizeof(status->reason), "CALLER_LIVE_LIMIT");
        status->retry_after_ms = CALLER_RETRY_MS;
        return -EAGAIN;
    }
    if (!runs->callers)
        return 0;
    r = rpc_callers_enter(runs->callers, caller, "runs", now_ns, status);
    if (r == 0) /* their number is counted above */
        rpc_callers_leave(runs->callers, caller);
    return r;
}

static int start_locked(struct agt_runs *runs, const char *caller, const char *key,
                        const struct agt_run_spec *spec, struct agt_run **ret_run,
                        struct rpc_status *status)
{
    struct agt_runs_entry *entry = key[0] ? find_key(runs, caller, key) : NULL;
    struct agt_run_spec owned = *spec;
    int64_t now_ns = cr_clock_mono_ns();
    int r;

    if (entry)
        return repeat(entry, spec, ret_run, status);
    if (now_ns >= runs->next_sweep_ns)
        sweep(runs, now_ns);
    r = agt_runs_check_quota(runs, caller, now_ns, status);
    if (r < 0)
        return r;
    entry = new_entry(caller, key, spec);
    if (!entry)
        return agt_runs_out_of_memory(status);
    owned.caller = caller;
    owned.key = key;
    r = agt_engine_start(runs->options.engine, &owned, &entry->run, status);
    if (r < 0) {
        free_entry(entry);
        return r;
    }
    link_entry(runs, entry);
    *ret_run = agt_run_ref(entry->run);
    return 0;
}

int agt_runs_start(struct agt_runs *runs, const char *caller, const char *key,
                   const struct agt_run_spec *spec, struct agt_run **ret_run,
                   struct rpc_status *ret_status)
{
    int r = check_key(key ? key : "", ret_status);

    if (r < 0)
        return r;
    /* Held over the start, so that two calls with one key start one run. */
    (void)pthread_mutex_lock(&runs->lock);
    r = start_locked(runs, caller, key ? key : "", spec, ret_run, ret_status);
    (void)pthread_mutex_unlock(&runs->lock);
    return r;
}
