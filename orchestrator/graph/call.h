/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "common/buf.h"
#include "common/mailbox.h"
#include "common/trace.h"
#include "crisol/agent/v1/agent.pb-c.h"
#include "orchestrator/graph/graph.h"
#include "orchestrator/model/model.h"
#include "orchestrator/sandbox/sandbox.h"
#include "rpc/status.h"

struct agt_engine;
struct agt_run;

/* Internal to orchestrator/graph: what reaches the engine's thread from the others. */

enum agt_mail_kind {
    AGT_MAIL_START,
    AGT_MAIL_CANCEL,
    AGT_MAIL_LEAVE, /* this process has lost its hold on the run */
    AGT_MAIL_STOP,  /* the engine */
    AGT_MAIL_MODEL_DELTA,
    AGT_MAIL_MODEL_RETRY,
    AGT_MAIL_SANDBOX_STARTED,
    AGT_MAIL_SANDBOX_OUTPUT,
    AGT_MAIL_CALL_END,
    AGT_MAIL_RESUME,  /* a packed Resumed, for the interrupt of state event `offset` */
    AGT_MAIL_DURABLE, /* a turn of the run is in the journal, up to state event `offset` */
};

struct agt_mail {
    struct cr_mail link; /* first */
    enum agt_mail_kind kind;
    struct agt_run *run;   /* a reference; NULL for STOP */
    struct agt_call *call; /* CALL_END: which one; the engine's from here on. Else NULL */
    int error;             /* DURABLE: 0, or why it never will be */
    uint32_t dropped;      /* deltas of the call lost before this one */
    uint32_t attempt;      /* MODEL_RETRY */
    uint32_t delay_ms;     /* MODEL_RETRY */
    bool flag;             /* MODEL_DELTA: is_thought; MODEL_RETRY: is_restart */
    int stream;            /* SANDBOX_OUTPUT */
    uint64_t offset;       /* MODEL_DELTA, SANDBOX_OUTPUT */
    size_t size;           /* of the data, without the NUL behind it */
    char data[];           /* text; SANDBOX_STARTED: a packed ExecuteResponse */
};

/* Bytes of deltas that may wait for the engine at one time; more are dropped and counted. */
#define AGT_MAIL_BYTES_MAX 67108864U
/* What a result keeps of each output stream; the rest is counted. */
#define AGT_OUTPUT_KEPT_MAX 262144U

/* NULL when memory is gone. `run` (may be NULL) gets one more reference. */
struct agt_mail *agt_mail_new(enum agt_mail_kind kind, struct agt_run *run, const void *data,
                              size_t size);
/* Drops its reference to the run. NULL is allowed; returns NULL. */
struct agt_mail *agt_mail_free(struct agt_mail *mail);

/* What becomes of what a program writes. */
enum agt_call_output {
    AGT_CALL_TOLD,    /* kept, and told as events, as the start is */
    AGT_CALL_KEPT,    /* kept, no event */
    AGT_CALL_DROPPED, /* neither */
};

/* What is kept of a struct rpc_status, which has room for much that no call needs. */
struct agt_call_status {
    enum rpc_code code;
    int32_t retry_after_ms;
    char *message; /* NULL or "": none. Owned */
};

/* A function that the model calls. Owned strings. */
struct agt_called {
    char *name;
    char *arguments;
    char *id;
    char *signature;
};

/*
 * A call to the model or to sandboxd. Its handlers run on other threads and
 * write here until they post CALL_END; from then on it is the engine's.
 */
struct agt_call {
    struct agt_engine *engine; /* borrowed: the engine waits for every end */
    struct agt_run *run;       /* a reference */
    struct agt_mail *end;      /* made ahead, so that an end cannot be lost */
    uint32_t dropped;          /* deltas lost since the last mail */
    enum agt_call_output output;
    struct cr_trace trace; /* the span of the call */
    int64_t began_ns;      /* since 1970; 0: it was not made */
    char key[64];          /* tells the calls of a run apart, also after a restart */

    /* A call that waits for the journal: what is needed to start it. */
    struct agt_call *next_held;
    char *held_prompt; /* owned; the rest of held_request is static or the run's */
    struct agt_model_request held_request;
    uint8_t *held_packed; /* ExecuteRequest. Owned */
    size_t held_size;
    int held_deadline_ms;

    struct agt_model *model; /* borrowed; NULL for a sandbox call */
    struct agt_model_call *model_call;
    struct agt_sandbox *sandbox; /* borrowed; NULL for a model call */
    struct agt_sandbox_call *sandbox_call;

    /* Model. The strings are owned; NULL only when memory was gone. */
    enum agt_model_end model_end;
    char *text;
    char *message;
    char *model_requested;
    char *model_served;
    char *finish_reason;
    char *call_name; /* function that the model calls; "": none */
    char *call_arguments;
    char *call_id;
    char *call_signature;
    struct agt_called *more_calls; /* of the same turn, behind that one. Owned */
    size_t more_call_count;
    struct agt_model_usage usage;
    uint32_t calls;
    uint32_t elapsed_ms;

    /* Sandbox. */
    struct cr_buf out; /* the first AGT_OUTPUT_KEPT_MAX bytes */
    struct cr_buf err;
    uint64_t out_omitted;
    uint64_t err_omitted;
    Crisol__Sandbox__V1__ExecuteResult *result; /* owned; NULL: none came */
    struct agt_call_status status;
};

/*
 * Start a call of this run, the model's as run->call; when the run is durable,
 * hold it until all before it is (journal.h). *ret_call is set before anything
 * can have happened, and NULL again on failure: a negative errno; then no end
 * will come, and a durable run is left, for whoever has the memory to take up.
 */
int agt_call_start_model(struct agt_run *run, const struct agt_model_request *request,
                         struct cr_err *err);
int agt_call_start_sandbox(struct agt_run *run, const Crisol__Sandbox__V1__ExecuteRequest *request,
                           int deadline_ms, enum agt_call_output output, struct agt_call **ret_call,
                           struct cr_err *err);

/* Starts a call that was held. The end comes in any case. */
void agt_call_go(struct agt_call *call);

/* How the call to sandboxd ended. */
void agt_call_set_status(struct agt_call *call, enum rpc_code code, const char *message);

/* Asks it to end; the end still comes. */
void agt_call_cancel(struct agt_call *call);

/* Gives the call room for so many more functions; their strings are NULL. Returns 0 or -ENOMEM. */
int agt_call_add_functions(struct agt_call *call, size_t count);

/* After its end. NULL is allowed; returns NULL. */
struct agt_call *agt_call_free(struct agt_call *call);

/* ---- what the engine offers to runs and calls (engine.c) ---- */

/* As they were given, with the defaults filled in. */
const struct agt_engine_options *agt_engine_options(const struct agt_engine *engine);
/* Deadline and heartbeat of a run that begins, or goes on, now. */
void agt_engine_set_times(const struct agt_engine *engine, struct agt_run *run);
/* How long one visit of the node may take. */
int64_t agt_engine_node_timeout_ns(const struct agt_engine *engine, enum agt_node node);
/* One more live run, for one that was live before a restart: no bound refuses it. */
void agt_engine_count_in(struct agt_engine *engine);

/* Never fails. */
void agt_engine_post(struct agt_engine *engine, struct agt_mail *take_mail);

/* For deltas: false when too much is waiting; then the mail is gone. */
bool agt_engine_try_post(struct agt_engine *engine, struct agt_mail *take_mail);
