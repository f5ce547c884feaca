/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "orchestrator/graph/engine.h"
#include "orchestrator/runs/runs.h"

#include <pthread.h>

struct agt_forking;
struct agt_store_run;
struct rpc_callers;
struct rpc_status;

/* Internal to orchestrator/runs: the registry and what its files share. */

#define BUCKETS 4096U

struct agt_runs_entry {
    struct agt_runs_entry *older;
    struct agt_runs_entry *newer;
    struct agt_runs_entry *next_by_id;
    struct agt_runs_entry *next_by_key; /* meaningful with a key */
    struct agt_run *run;                /* a reference */
    char *caller;
    char *key;        /* NULL: none */
    uint64_t request; /* hash of what was asked for */
    uint64_t number;  /* counts up: the order of a list */
    int64_t ended_ns; /* when its end was seen; 0: it goes on */
};

struct agt_runs {
    struct agt_runs_options options; /* with the defaults filled in */
    struct rpc_callers *callers;     /* what each has begun lately; NULL: no limit */
    struct rpc_callers *exports;     /* what each has read of the store and not freed */

    pthread_mutex_t lock; /* guards all below; taken before any lock of the engine */
    struct agt_runs_entry *newest;
    struct agt_runs_entry *oldest;
    struct agt_runs_entry *by_id[BUCKETS];
    struct agt_runs_entry *by_key[BUCKETS];
    uint32_t forks;              /* whose on_done has not returned */
    pthread_cond_t forked;       /* forks fell */
    struct agt_forking *forking; /* on their way through the store; not yet among the entries */
    size_t guest_count;          /* runs of other processes that go on, about */
    uint64_t last_number;
    int64_t next_sweep_ns;
};

/* With the lock. */
struct agt_runs_entry *agt_runs_find_entry(struct agt_runs *runs, const char *run_id);

/* Whether the caller may begin a run now; then it has begun one. Returns 0, or a negative errno
 * with `status`. With the lock. */
int agt_runs_check_quota(struct agt_runs *runs, const char *caller, int64_t now_ns,
                         struct rpc_status *status);

/* Runs of the caller that are being begun as forks. With the lock. */
uint32_t agt_runs_count_forks(const struct agt_runs *runs, const char *caller);

/* Forgets an ended run, in the store, too, and frees the entry. With the lock. */
void agt_runs_forget_entry(struct agt_runs *runs, struct agt_runs_entry *entry);

/* Takes a run that comes from the store; `user` is the registry. Without the lock. */
int agt_runs_on_loaded(void *user, struct agt_run *take_run, const struct agt_run_spec *spec);

/* What a store that is shared tells (store.h, watch()); `user` is the registry. */
int agt_runs_on_stored(void *user, const struct agt_store_run *row);

/* Does what the store has for runs of this process. On the store's thread, or at the start. */
void agt_runs_take_requests(struct agt_runs *runs);

/* Returns -ENOMEM. */
int agt_runs_out_of_memory(struct rpc_status *status);
