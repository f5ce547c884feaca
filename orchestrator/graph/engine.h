/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct agt_catalog;
struct agt_meter;
struct agt_model;
struct agt_sandbox;
struct agt_signer;
struct agt_store;
struct agt_store_event;
struct agt_store_run;
struct agt_tracer;
struct cr_err;
struct rpc_status;

/*
 * Runs the agent graph. A run is a state machine on the engine's one thread;
 * it waits on the model and the sandbox by callbacks, so thousands of runs
 * share that thread.
 */
struct agt_engine;

/* A run. Reference-counted; may outlive its end for as long as somebody watches it. */
struct agt_run;

/*
 * One event: a crisol.agent.v1.RunEvent in packed form, shared by all who
 * watch. Immutable, reference-counted by atomics.
 */
struct agt_event {
    uint32_t refs; /* use agt_event_ref/unref */
    uint32_t seq;  /* RunEvent.seq */
    bool is_state; /* false: a delta, which slow readers may miss */
    bool is_last;  /* carries the result */
    uint32_t size;
    struct agt_event_block *block; /* that it lies in, of which it holds a reference; NULL: none */
    uint8_t packed[];              /* RunEvent */
};

struct agt_event *agt_event_ref(struct agt_event *event);
struct agt_event *agt_event_unref(struct agt_event *event); /* NULL is allowed; returns NULL */

/* The engine's thread: the first thing that is different when a run is repeated. */
struct agt_replay_watch {
    void (*on_difference)(void *user, uint32_t seq, const char *text);
    void *user;
};

struct agt_engine_options {
    struct agt_model *model;     /* borrowed; outlives the engine */
    struct agt_sandbox *sandbox; /* borrowed; outlives the engine */
    struct agt_store *store;     /* runs are durable; NULL: they end with the process. Borrowed;
                                    outlives the engine */
    const struct agt_replay_watch *replay; /* runs of the store are only repeated, each event and
                                              each request has to be the same; NULL: they go on */
    /* Signs receipts; NULL: nobody does. Borrowed; outlives the engine. */
    const struct agt_signer *signer;
    /* Counts what runs do; NULL: nobody does. Borrowed; outlives the engine. */
    struct agt_meter *meter;
    /* Is told what runs did when; NULL: nobody is. Borrowed; outlives the engine. */
    struct agt_tracer *tracer;
    /* Prices and parameters of models; NULL: none. Borrowed; outlives the engine. */
    const struct agt_catalog *catalog;
    uint32_t max_runs;        /* live runs; 0: 10,000 */
    uint32_t run_timeout_ms;  /* wall clock of a run; 0: 1,800,000 */
    uint32_t node_timeout_ms; /* one visit of a node; 0: as the graph says */
    uint32_t retry_base_ms;   /* first wait after a fault of the sandbox, doubled from try to
                                 try; 0: 500 */
    uint32_t heartbeat_ms;    /* silence of a run before a Heartbeat event; 0: 15,000 */
    /* As often attempts may be the same before something is done about it; 0: 2. */
    uint32_t stall_same_code;
    uint32_t stall_same_failure;
};

int agt_engine_new(const struct agt_engine_options *options, struct agt_engine **ret_engine,
                   struct cr_err *err);

/* Cancels what is running, leaves what is durable to the next process, and waits for both. NULL is
 * allowed; returns NULL. */
struct agt_engine *agt_engine_free(struct agt_engine *engine);

/* Refuses new runs and waits up to `grace_ms` for the live ones. True when all ended by themselves.
 */
bool agt_engine_drain(struct agt_engine *engine, int grace_ms);

uint32_t agt_engine_live_runs(const struct agt_engine *engine);

/* Turns of its thread (common/turns.h). Any thread. */
uint64_t agt_engine_turns(const struct agt_engine *engine);

#define AGT_ITERATIONS_MAX 10
#define AGT_HINTS_MAX 8
#define AGT_HINT_MAX 8192U /* bytes */

struct agt_run_spec {
    const char *task;           /* borrowed for the call */
    int32_t max_iterations;     /* 0: default; else 1 to AGT_ITERATIONS_MAX */
    const char *model;          /* NULL or "": default */
    const void *sandbox_limits; /* packed crisol.sandbox.v1.Limits; NULL: defaults */
    size_t sandbox_limits_size;
    const void *terms; /* packed crisol.agent.v1.TaskTerms; NULL: none */
    size_t terms_size;
    int verify;                  /* crisol.agent.v1.VerificationLevel; 0: default */
    uint32_t interrupts;         /* bits of crisol.agent.v1.Node: pauses behind these */
    bool is_waited_for;          /* somebody waits for the end alone: no interrupts */
    const char *caller;          /* kept with a durable run. NULL: nobody */
    const char *key;             /* the same; NULL: none */
    const char *run_id;          /* NULL: a new one, as always but from the store */
    const char *model_requested; /* likewise: the name that was in force … */
    bool has_price;              /* … and what it cost then (model/catalog.h) */
    uint64_t input_price;
    uint64_t output_price;
    uint32_t stall_same_code; /* likewise: as was in force … */
    uint32_t stall_same_failure;
    bool has_numbered_checks; /* likewise: how its checks are named and asked for (checks.h) */
    uint32_t format;          /* likewise: of its journal (journal.h) */
    char *const *hints;       /* likewise: for the times when its attempts repeat themselves … */
    size_t hint_count;        /* … at most AGT_HINTS_MAX */
    const char *damaged;      /* a field that the store has and nobody can read; NULL: none. The run
                                 has to end. Static storage */
};

/*
 * Takes up what is in the store: `on_run` gets every run in the order in which
 * they began, with a reference to take; those that have not ended go on. Once,
 * before the first start. Without a store there is nothing. Returns 0 or a
 * negative errno.
 */
typedef int (*agt_engine_on_run)(void *user, struct agt_run *take_run,
                                 const struct agt_run_spec *spec);
int agt_engine_load(struct agt_engine *engine, agt_engine_on_run on_run, void *user,
                    struct cr_err *err);

/* The same with one run of the store. On a thread that may wait for the store. -EPROTO: it goes on,
 * and never will here: a newer program wrote it, or it cannot be read. On another failure nobody
 * was told of it. */
int agt_engine_take_up(struct agt_engine *engine, const struct agt_store_run *row,
                       agt_engine_on_run on_run, void *user, struct cr_err *err);

/*
 * Validates and starts a run. Any thread. On success *ret_run is a reference.
 * On failure returns a negative errno and fills in ret_status: violations for
 * bad fields, FAILED_PRECONDITION without a model key, RESOURCE_EXHAUSTED at
 * max_runs, UNAVAILABLE while draining.
 */
int agt_engine_start(struct agt_engine *engine, const struct agt_run_spec *spec,
                     struct agt_run **ret_run, struct rpc_status *ret_status);

/*
 * Asks the provider for its models. Any thread. When it returns 0, on_models
 * runs exactly once, on the provider's thread; it must not block, and `names`
 * are gone after it. Else a negative errno, with ret_status filled in.
 */
typedef void (*agt_engine_on_models)(void *user, const struct rpc_status *status,
                                     const char *const *names, size_t count);
int agt_engine_list_models(struct agt_engine *engine, agt_engine_on_models on_models, void *user,
                           struct rpc_status *ret_status);

/* The bit of a crisol.agent.v1.Node for agt_run_spec.interrupts; 1 for what is none. */
uint32_t agt_node_bit(int node);

/* Whether a run may be started now; else as agt_engine_start(). Any thread. */
int agt_engine_check_room(struct agt_engine *engine, struct rpc_status *ret_status);

#define AGT_EDIT_FILES_MAX 16

/* What is put in place of what an interrupted run has. Borrowed for the call. */
struct agt_edits {
    const char *plan; /* NULL or "": as it is */

    struct {
        const char *path;
        const char *text;
    } files[AGT_EDIT_FILES_MAX];

    size_t file_count;
};

/*
 * Lets an interrupted run go on. Any thread. Returns 0 with the number of the
 * event that told of the interrupt; it is taken up once. Else a negative errno
 * with ret_status: FAILED_PRECONDITION when it is not interrupted, or
 * violations.
 */
int agt_run_resume(struct agt_run *run, const struct agt_edits *edits, uint32_t *ret_seq,
                   struct rpc_status *ret_status);

/*
 * Whether this may be told to the model of a run that ended STALLED. Any
 * thread. Returns 0 with the number of the last event before that end, behind
 * which a fork goes on with the hint; else -EINVAL with violations, or -EBUSY
 * with FAILED_PRECONDITION.
 */
int agt_run_check_hint(struct agt_run *run, const char *hint, uint32_t *ret_seq,
                       struct rpc_status *ret_status);

/*
 * The same for a run that another process holds, in two steps: here it is
 * checked, and packed for that process into *ret_packed (to free); there it is
 * unpacked and done, for the interrupt of state event `seq` alone.
 */
int agt_guest_pack_resume(struct agt_run *run, const struct agt_edits *edits, uint8_t **ret_packed,
                          size_t *ret_size, uint32_t *ret_seq, struct rpc_status *ret_status);
int agt_run_resume_packed(struct agt_run *run, uint32_t seq, const void *packed, size_t size);

/* What was packed here for the interrupt of state event `seq` never left: it may be asked again. */
void agt_guest_take_back_resume(struct agt_run *run, uint32_t seq);

const char *agt_run_id(const struct agt_run *run);  /* 32 hexadecimal digits */
void agt_run_cancel(struct agt_run *run);           /* any thread; safe to repeat */
struct agt_run *agt_run_ref(struct agt_run *run);   /* any thread */
struct agt_run *agt_run_unref(struct agt_run *run); /* NULL is allowed; returns NULL */

/* The number of its newest state event that can be read; 0: none. Any thread. */
uint32_t agt_run_seq(const struct agt_run *run);

/* The last event has happened, or there was no memory for it. Any thread. */
bool agt_run_has_ended(const struct agt_run *run);

/* It goes on elsewhere: in another process that shares the store, or in the next. Any thread. */
bool agt_run_is_left(const struct agt_run *run);

/* Counts who held the run, as the store does (store.h); 0 where there is no store. Any thread. */
uint64_t agt_run_fence(const struct agt_run *run);

/* Leaves the run soon: the store has given this process another hold on it. Any thread; safe to
 * repeat. */
void agt_run_leave(struct agt_run *run);

/*
 * Guests: runs that go on in another process that shares the store, taken with
 * agt_engine_take_up() to be read. They can be neither cancelled nor taken up
 * here. The store's thread adds what it reads (graph/store: their events): the
 * event behind agt_guest_seq(), which is that event then. -EBADMSG: it is another
 * one, or none that can be read; -ENOMEM: it may be added once more. Who leaves
 * one ends its watches, as for a run that is left.
 */
bool agt_run_is_guest(const struct agt_run *run);
uint32_t agt_guest_seq(const struct agt_run *run);
int agt_guest_add(struct agt_run *run, const struct agt_store_event *row);
void agt_guest_leave(struct agt_run *run);

/*
 * Another process has started the run of the same key: its id, and in
 * *ret_is_same whether it was asked for the same. NULL for a run that is not
 * left for that. Borrowed. Any thread.
 */
const char *agt_run_twin(const struct agt_run *run, bool *ret_is_same);

/* A reference to the last event; NULL while there is none. Any thread. */
struct agt_event *agt_run_last_event(const struct agt_run *run);

/* Bytes of the events that the run holds now. Any thread. */
size_t agt_run_bytes(const struct agt_run *run);

/*
 * Reads a run's events in order, from state event `from_seq` on (0: all).
 * State events are never lost; deltas that a slow reader could not take in
 * time are replaced by one Gap event.
 */
struct agt_watch;

/*
 * `notify` is called from any thread, with no lock held, when there may be
 * something to read after agt_watch_next() said there was nothing.
 */
int agt_watch_new(struct agt_run *run, uint32_t from_seq, void (*notify)(void *user), void *user,
                  struct agt_watch **ret_watch);

/*
 * Returns 1 with a reference in *ret_event, 0 when there is nothing yet,
 * -EPIPE after the last event. Any thread, one at a time.
 */
int agt_watch_next(struct agt_watch *watch, struct agt_event **ret_event);

/*
 * For a reader of the last event alone: everything else is left out, and notify
 * is called once there is an end. An answer of the model is hundreds of events,
 * and each would wake a thread. Before the first agt_watch_next().
 */
void agt_watch_only_last(struct agt_watch *watch);

/* After it returned, notify will not be called. NULL is allowed; returns NULL. */
struct agt_watch *agt_watch_free(struct agt_watch *watch);
