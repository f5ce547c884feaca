/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct agt_edits;
struct agt_engine;
struct agt_run;
struct agt_run_spec;
struct agt_store;
struct cr_err;
struct rpc_status;

/*
 * The runs that callers can ask for: those that go on, and those that have
 * ended and are not forgotten yet. A run belongs to the caller that started
 * it; to every other caller it is not there. Any thread.
 */
struct agt_runs;

#define AGT_RUNS_PAGE_MAX 100
#define AGT_RUNS_EXPORTS_MAX 4 /* of one caller in memory: each may have 64 MiB */
#define AGT_RUNS_KEY_MAX 128   /* bytes of an idempotency key */

struct agt_runs_options {
    struct agt_engine *engine;  /* borrowed; outlives the registry */
    struct agt_store *store;    /* of the engine; NULL: none. Borrowed; outlives the registry */
    uint32_t max_caller_live;   /* runs of one caller that go on here; 0: no limit */
    uint32_t caller_per_minute; /* runs that one caller may begin in a minute; 0: no limit */
    uint32_t max_ended;         /* ended runs kept; 0: 1,000 */
    size_t max_ended_bytes;     /* of their events; 0: 256 MiB */
    uint32_t max_ended_age_s;   /* since their end was seen; 0: 86,400 */
};

int agt_runs_new(const struct agt_runs_options *options, struct agt_runs **ret_runs,
                 struct cr_err *err);

/* Takes up the runs of the engine's store. Once, before the first start. */
int agt_runs_load(struct agt_runs *runs, struct cr_err *err);

/* Takes no further run from the store. After it returned nothing of that kind is going on. */
void agt_runs_quiesce(struct agt_runs *runs);

/* Lets go of every run; those that go on are the engine's to end. The store has been hurried. NULL
 * is allowed; returns NULL. */
struct agt_runs *agt_runs_free(struct agt_runs *runs);

/*
 * Starts a run of `caller` with agt_engine_start() and keeps it. With a key
 * (NULL or "": none) the same caller and key give the run that was started
 * with them before; with another request that is ALREADY_EXISTS. On success
 * *ret_run is a reference. On failure returns a negative errno and fills in
 * ret_status.
 */
int agt_runs_start(struct agt_runs *runs, const char *caller, const char *key,
                   const struct agt_run_spec *spec, struct agt_run **ret_run,
                   struct rpc_status *ret_status);

/*
 * Whether a caller that leaves ends its run. `on_disconnect` is a
 * crisol.agent.v1.OnDisconnect; `is_submit`: nobody waits. Returns 0, or
 * -EINVAL with a violation.
 */
int agt_runs_check_disconnect(int on_disconnect, bool is_submit, bool *ret_cancels,
                              struct rpc_status *ret_status);

/* Why a key starts nothing. */
#define AGT_RUNS_KEY_TAKEN "idempotency_key: was used with another request; take a new key"

/* Why a run that was here has no end here. */
#define AGT_RUNS_LEFT                                                                              \
    "the run goes on in another process of this service, or after the restart of this one; ask "   \
    "again"

/*
 * A reference to the caller's run. Else NULL, with NOT_FOUND, a violation of
 * "run_id", or UNAVAILABLE while the run is elsewhere.
 */
struct agt_run *agt_runs_find(struct agt_runs *runs, const char *caller, const char *run_id,
                              struct rpc_status *ret_status);

/* Told once, on the store's thread: 0, it is durable; -errno, it could not be stored. */
typedef void (*agt_runs_on_stored_request)(void *user, int error);

/*
 * Cancels a run, wherever it goes on: one of another process within its next
 * look at the store (a second or so). Stored, so that it stays cancelled
 * whoever dies: returns 1 when `on_stored` tells of that; 0 when there is
 * nothing to wait for (it has ended, runs are not durable, or it is held here
 * and the store takes nothing in now); or a negative errno with ret_status:
 * UNAVAILABLE when its holder cannot be told. Any thread.
 */
int agt_runs_cancel(struct agt_runs *runs, struct agt_run *run,
                    agt_runs_on_stored_request on_stored, void *user,
                    struct rpc_status *ret_status);

/*
 * Lets an interrupted run go on, wherever it waits; as agt_run_resume(). When
 * two processes are asked for the same interrupt at one time, the first counts.
 * Returns 1 when another process holds the run and `on_stored` tells that it
 * will find the request; 0 when it goes on here: its next state event is
 * durable when it can be read.
 */
int agt_runs_resume(struct agt_runs *runs, struct agt_run *run, const struct agt_edits *edits,
                    uint32_t *ret_seq, agt_runs_on_stored_request on_stored, void *user,
                    struct rpc_status *ret_status);

/* Why a hint is refused. */
#define AGT_RUNS_HINT_ALONE                                                                        \
    "is for a run that ended STALLED, and a plan or files are for one that waits: give one of them"

/* What an error of on_stored means to the caller. */
void agt_runs_stored_status(int error, struct rpc_status *ret_status);

/*
 * Reads all that is stored of the caller's run (graph/export.h has on_done).
 * On failure returns a negative errno and fills in ret_status:
 * FAILED_PRECONDITION without a store, RESOURCE_EXHAUSTED for one more than
 * AGT_RUNS_EXPORTS_MAX of the caller, else as agt_runs_find(); then on_done is
 * not called. Else call agt_runs_export_done() when what it gave is freed.
 */
int agt_runs_export(struct agt_runs *runs, const char *caller, const char *run_id,
                    void (*on_done)(void *user, uint8_t *take_packed, size_t size, int error),
                    void *user, struct rpc_status *ret_status);

void agt_runs_export_done(struct agt_runs *runs, const char *caller);

/* Asks the provider for its models (graph/engine.h has on_models); as agt_engine_list_models(). */
int agt_runs_list_models(struct agt_runs *runs,
                         void (*on_models)(void *user, const struct rpc_status *status,
                                           const char *const *names, size_t count),
                         void *user, struct rpc_status *ret_status);

/* What on_done's error means to the caller. */
void agt_runs_export_status(int error, struct rpc_status *ret_status);

/* Deletes the caller's run, which has ended, in the store, too. Returns 0 or a negative errno with
 * ret_status: FAILED_PRECONDITION while it goes on, else as agt_runs_find(). */
int agt_runs_delete(struct agt_runs *runs, const char *caller, const char *run_id,
                    struct rpc_status *ret_status);

/*
 * Starts a new run with the beginning of the caller's run, up to state event
 * `seq`, and with a hint (agt_run_check_hint(); NULL: none). on_done is called once, on the store's
 * thread: with the new run's id, or with NULL and a status. On failure returns a negative errno and
 * fills in ret_status; then on_done is not called.
 */
struct agt_runs_fork {
    const char *run_id;
    uint32_t seq;
    const char *hint;
};

int agt_runs_fork(struct agt_runs *runs, const char *caller, const struct agt_runs_fork *from,
                  void (*on_done)(void *user, const char *run_id, const struct rpc_status *status),
                  void *user, struct rpc_status *ret_status);

struct agt_runs_page {
    struct agt_run *runs[AGT_RUNS_PAGE_MAX]; /* references; newest first */
    size_t count;
    char next_token[24]; /* "": nothing follows */
};

/*
 * One page of the caller's runs. `page_size` 0 means AGT_RUNS_PAGE_MAX;
 * `page_token` is "" or a next_token. Returns 0, or -EINVAL with violations.
 */
int agt_runs_list(struct agt_runs *runs, const char *caller, uint32_t page_size,
                  const char *page_token, struct agt_runs_page *ret_page,
                  struct rpc_status *ret_status);
void agt_runs_page_done(struct agt_runs_page *page);

/* How many go on in this process. Any thread. */
uint32_t agt_runs_live(const struct agt_runs *runs);

/* Forgets ended runs beyond the bounds, in the store, too. agt_runs_start() does it from time to
 * time. */
void agt_runs_sweep(struct agt_runs *runs);
