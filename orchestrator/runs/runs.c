/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/runs/runs.h"

#include "common/clock.h"
#include "common/err.h"
#include "common/log.h"
#include "orchestrator/graph/engine.h"
#include "orchestrator/graph/export.h"
#include "orchestrator/store/store.h"
#include "rpc/status.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_ENDED_DEFAULT 1000
#define MAX_ENDED_BYTES_DEFAULT ((size_t)256 << 20)
#define MAX_ENDED_AGE_S_DEFAULT 86400
#define SWEEP_EVERY_NS (100 * CR_NS_PER_MS)
#define BUCKETS 4096U
#define RUN_ID_SIZE 32

struct entry {
    struct entry *older;
    struct entry *newer;
    struct entry *next_by_id;
    struct entry *next_by_key; /* meaningful with a key */
    struct agt_run *run;       /* a reference */
    char *caller;
    char *key;        /* NULL: none */
    uint64_t request; /* hash of what was asked for */
    uint64_t number;  /* counts up: the order of a list */
    int64_t ended_ns; /* when its end was seen; 0: it goes on */
};

struct agt_runs {
    struct agt_runs_options options; /* with the defaults filled in */

    pthread_mutex_t lock; /* guards all below; taken before any lock of the engine */
    struct entry *newest;
    struct entry *oldest;
    struct entry *by_id[BUCKETS];
    struct entry *by_key[BUCKETS];
    uint64_t last_number;
    int64_t next_sweep_ns;
};

/* FNV-1a: spreads over buckets and tells requests apart; nothing here trusts it against malice. */
static uint64_t hash_more(uint64_t hash, const void *data, size_t size)
{
    const uint8_t *bytes = data;

    for (size_t i = 0; i < size; i++)
        hash = (hash ^ bytes[i]) * 0x100000001b3U;
    return hash;
}

static uint64_t hash_text(uint64_t hash, const char *text)
{
    return hash_more(hash, text, strlen(text) + 1);
}

#define HASH_START 0xcbf29ce484222325U

static struct entry **id_bucket(struct agt_runs *runs, const char *id)
{
    return &runs->by_id[hash_text(HASH_START, id) % BUCKETS];
}

static struct entry **key_bucket(struct agt_runs *runs, const char *caller, const char *key)
{
    return &runs->by_key[hash_text(hash_text(HASH_START, caller), key) % BUCKETS];
}

static uint64_t hash_request(const struct agt_run_spec *spec)
{
    uint64_t hash = hash_text(HASH_START, spec->task);

    hash = hash_more(hash, &spec->max_iterations, sizeof(spec->max_iterations));
    hash = hash_more(hash, &spec->verify, sizeof(spec->verify));
    hash = hash_more(hash, &spec->verify, sizeof(spec->verify));
    hash = hash_text(hash, spec->model ? spec->model : "");
    return hash_more(hash, spec->sandbox_limits ? spec->sandbox_limits : "",
                     spec->sandbox_limits_size);
}

static void free_entry(struct entry *entry)
{
    (void)agt_run_unref(entry->run);
    free(entry->caller);
    free(entry->key);
    free(entry);
}

static struct entry *new_entry(const char *caller, const char *key, const struct agt_run_spec *spec)
{
    struct entry *entry = calloc(1, sizeof(*entry));

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

static void link_entry(struct agt_runs *runs, struct entry *entry)
{
    struct entry **bucket = id_bucket(runs, agt_run_id(entry->run));

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

static void unlink_entry(struct agt_runs *runs, struct entry *entry)
{
    struct entry **link = id_bucket(runs, agt_run_id(entry->run));

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

/* The newest ended runs that fit are kept; whoever holds a reference keeps what it reads. */
static void sweep(struct agt_runs *runs, int64_t now_ns)
{
    int64_t age_ns = runs->options.max_ended_age_s * CR_NS_PER_S;
    uint32_t count = 0;
    size_t bytes = 0;
    struct entry *older;

    runs->next_sweep_ns = now_ns + SWEEP_EVERY_NS;
    for (struct entry *entry = runs->newest; entry; entry = older) {
        older = entry->older;
        if (entry->ended_ns == 0 && agt_run_has_ended(entry->run))
            entry->ended_ns = now_ns;
        if (entry->ended_ns == 0)
            continue;
        bytes += agt_run_bytes(entry->run);
        count++;
        if (count > runs->options.max_ended || bytes > runs->options.max_ended_bytes ||
            now_ns - entry->ended_ns >= age_ns) {
            if (!agt_run_is_left(entry->run))
                forget_stored(runs->options.store, agt_run_id(entry->run));
            unlink_entry(runs, entry);
            free_entry(entry);
        }
    }
}

/* ---- life ---- */

int agt_runs_new(const struct agt_runs_options *options, struct agt_runs **ret_runs,
                 struct cr_err *err)
{
    struct agt_runs *runs = calloc(1, sizeof(*runs));

    if (!runs)
        return cr_err_set(err, ENOMEM, "out of memory for the registry of runs");
    runs->options = *options;
    if (runs->options.max_ended == 0)
        runs->options.max_ended = MAX_ENDED_DEFAULT;
    if (runs->options.max_ended_bytes == 0)
        runs->options.max_ended_bytes = MAX_ENDED_BYTES_DEFAULT;
    if (runs->options.max_ended_age_s == 0)
        runs->options.max_ended_age_s = MAX_ENDED_AGE_S_DEFAULT;
    (void)pthread_mutex_init(&runs->lock, NULL);
    *ret_runs = runs;
    return 0;
}

struct agt_runs *agt_runs_free(struct agt_runs *runs)
{
    struct entry *older;

    if (!runs)
        return NULL;
    agt_runs_quiesce(runs);
    for (struct entry *entry = runs->newest; entry; entry = older) {
        older = entry->older;
        free_entry(entry);
    }
    (void)pthread_mutex_destroy(&runs->lock);
    free(runs);
    return NULL;
}

static struct entry *find_id(struct agt_runs *runs, const char *run_id)
{
    struct entry *entry = *id_bucket(runs, run_id);

    while (entry && strcmp(agt_run_id(entry->run), run_id) != 0)
        entry = entry->next_by_id;
    return entry;
}

/* In place of what is known of the run, if it was left before. */
static int on_loaded(void *user, struct agt_run *take_run, const struct agt_run_spec *spec)
{
    struct agt_runs *runs = user;
    struct entry *entry = new_entry(spec->caller, spec->key, spec);
    struct entry *before;

    if (!entry) {
        (void)agt_run_unref(take_run);
        return -ENOMEM;
    }
    entry->run = take_run;
    (void)pthread_mutex_lock(&runs->lock);
    before = find_id(runs, agt_run_id(take_run));
    if (before) {
        unlink_entry(runs, before);
        free_entry(before);
    }
    link_entry(runs, entry);
    (void)pthread_mutex_unlock(&runs->lock);
    return 0;
}

/* The store's thread: a run that this process is to go on with, or that ended in another. */
static void on_stored(void *user, const struct agt_store_run *row)
{
    struct agt_runs *runs = user;
    struct cr_err err = CR_ERR_INIT;
    const struct entry *entry;
    bool is_here;
    int r = 0;

    (void)pthread_mutex_lock(&runs->lock);
    entry = find_id(runs, row->run_id);
    is_here = entry && !agt_run_is_left(entry->run);
    (void)pthread_mutex_unlock(&runs->lock);
    if (!is_here)
        r = agt_engine_take_up(runs->options.engine, row, on_loaded, runs, &err);
    if (r < 0)
        cr_log_error("runs: a run of the store cannot be taken up (%s), leaving it run=%s",
                     err.code ? err.text : "out of memory", row->run_id);
}

int agt_runs_load(struct agt_runs *runs, struct cr_err *err)
{
    struct agt_store *store = runs->options.store;
    int r = agt_engine_load(runs->options.engine, on_loaded, runs, err);

    if (r < 0)
        return r;
    agt_runs_sweep(runs);
    if (store && store->ops->watch)
        store->ops->watch(store, on_stored, runs);
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

/* ---- starting ---- */

static int out_of_memory(struct rpc_status *status)
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

static struct entry *find_key(struct agt_runs *runs, const char *caller, const char *key)
{
    struct entry *entry = *key_bucket(runs, caller, key);

    while (entry && (strcmp(entry->key, key) != 0 || strcmp(entry->caller, caller) != 0))
        entry = entry->next_by_key;
    return entry;
}

static int repeat(const struct entry *entry, const struct agt_run_spec *spec,
                  struct agt_run **ret_run, struct rpc_status *status)
{
    if (entry->request != hash_request(spec)) {
        rpc_status_set(status, RPC_ALREADY_EXISTS,
                       "idempotency_key: was used with another request; take a new key");
        return -EEXIST;
    }
    *ret_run = agt_run_ref(entry->run);
    return 0;
}

static int start_locked(struct agt_runs *runs, const char *caller, const char *key,
                        const struct agt_run_spec *spec, struct agt_run **ret_run,
                        struct rpc_status *status)
{
    struct entry *entry = key[0] ? find_key(runs, caller, key) : NULL;
    struct agt_run_spec owned = *spec;
    int64_t now_ns = cr_clock_mono_ns();
    int r;

    if (entry)
        return repeat(entry, spec, ret_run, status);
    if (now_ns >= runs->next_sweep_ns)
        sweep(runs, now_ns);
    entry = new_entry(caller, key, spec);
    if (!entry)
        return out_of_memory(status);
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

/* ---- asking ---- */

struct agt_run *agt_runs_find(struct agt_runs *runs, const char *caller, const char *run_id,
                              struct rpc_status *ret_status)
{
    struct agt_run *run = NULL;
    const struct entry *entry;
    bool is_known;

    if (strlen(run_id) != RUN_ID_SIZE || strspn(run_id, "0123456789abcdef") != RUN_ID_SIZE) {
        rpc_status_add_violation(ret_status, "run_id",
                                 "must be the 32 hexadecimal digits of a run");
        return NULL;
    }
    (void)pthread_mutex_lock(&runs->lock);
    entry = find_id(runs, run_id);
    is_known = entry && strcmp(entry->caller, caller) == 0;
    if (is_known && !agt_run_is_left(entry->run))
        run = agt_run_ref(entry->run);
    (void)pthread_mutex_unlock(&runs->lock);
    if (is_known && !run) {
        rpc_status_set(ret_status, RPC_UNAVAILABLE, "run_id: " AGT_RUNS_LEFT);
        ret_status->retry_after_ms = 1000;
    } else if (!run) {
        rpc_status_set(ret_status, RPC_NOT_FOUND,
                       "run_id: you have no run of this id, or it was forgotten after its end");
    }
    return run;
}

int agt_runs_export(struct agt_runs *runs, const char *caller, const char *run_id,
                    void (*on_done)(void *user, uint8_t *take_packed, size_t size, int error),
                    void *user, struct rpc_status *ret_status)
{
    struct agt_run *run = agt_runs_find(runs, caller, run_id, ret_status);
    int r;

    if (!run)
        return -ENOENT;
    if (runs->options.store) {
        r = agt_run_export(runs->options.store, run, on_done, user);
        if (r < 0)
            r = out_of_memory(ret_status);
    } else {
        rpc_status_set(ret_status, RPC_FAILED_PRECONDITION,
                       "the service keeps no journal of runs; its operator has to name a store");
        r = -ENOENT;
    }
    (void)agt_run_unref(run);
    return r;
}

/* 0 for "": everything is older than nothing. */
static int parse_token(const char *token, uint64_t *ret_number)
{
    char *end = NULL;

    *ret_number = UINT64_MAX;
    if (token[0] == '\0')
        return 0;
    if (strspn(token, "0123456789") != strlen(token) || strlen(token) > 19)
        return -EINVAL;
    *ret_number = strtoull(token, &end, 10);
    return 0;
}

int agt_runs_list(struct agt_runs *runs, const char *caller, uint32_t page_size,
                  const char *page_token, struct agt_runs_page *ret_page,
                  struct rpc_status *ret_status)
{
    uint64_t before = 0;
    uint64_t last = 0;

    ret_page->count = 0;
    ret_page->next_token[0] = '\0';
    if (parse_token(page_token, &before) < 0)
        rpc_status_add_violation(ret_status, "page_token",
                                 "must be empty or the next_page_token of an answer");
    if (page_size > AGT_RUNS_PAGE_MAX)
        rpc_status_add_violation(ret_status, "page_size", "must be at most %d", AGT_RUNS_PAGE_MAX);
    if (ret_status->code != RPC_OK)
        return -EINVAL;
    if (page_size == 0)
        page_size = AGT_RUNS_PAGE_MAX;
    (void)pthread_mutex_lock(&runs->lock);
    for (const struct entry *entry = runs->newest; entry; entry = entry->older) {
        if (entry->number >= before || strcmp(entry->caller, caller) != 0 ||
            agt_run_is_left(entry->run))
            continue;
        if (ret_page->count == page_size) {
            (void)snprintf(ret_page->next_token, sizeof(ret_page->next_token), "%" PRIu64, last);
            break;
        }
        ret_page->runs[ret_page->count++] = agt_run_ref(entry->run);
        last = entry->number;
    }
    (void)pthread_mutex_unlock(&runs->lock);
    return 0;
}

void agt_runs_page_done(struct agt_runs_page *page)
{
    for (size_t i = 0; i < page->count; i++)
        (void)agt_run_unref(page->runs[i]);
    page->count = 0;
}
