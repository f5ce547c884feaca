/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "common/trace.h"
#include "crisol/agent/v1/agent.pb-c.h"
#include "orchestrator/graph/engine.h"
#include "orchestrator/graph/fenced.h"
#include "orchestrator/graph/graph.h"
#include "orchestrator/graph/stall.h"
#include "orchestrator/graph/timers.h"
#include "orchestrator/graph/tries.h"
#include "orchestrator/receipt/receipt.h"
#include "orchestrator/verify/audit.h"
#include "orchestrator/verify/level.h"

#include <pthread.h>

struct agt_call;
struct agt_checks;
struct agt_event_log;
struct agt_journal;
struct agt_mail;
struct agt_tools;
struct cr_buf;

/* Internal to orchestrator/graph: a run, as the engine's thread sees it. */

#define AGT_ITERATIONS_DEFAULT 3
#define AGT_SANDBOX_WAITS_MAX 60 /* when it is only busy */
#define AGT_TASK_MAX 65536U      /* bytes */
#define AGT_PLAN_MAX 65536U      /* bytes */
#define AGT_LIST_MAX 64          /* items of a string list; further ones are left out */

/* Strings that a result carries. Owned. */
struct agt_list {
    char **items; /* NULL: none yet */
    size_t count;
    size_t room;
};

/* An answer of the generator that reached the sandbox. */
struct agt_attempt {
    int32_t iteration;
    bool has_passed;
    Crisol__Agent__V1__AttemptCause cause;
    char *summary;
    char *feedback;
    struct agt_files files;
    char *diff;
    Crisol__Sandbox__V1__ExecuteResult *execution; /* trimmed; owned */
    char *stdout_text;                             /* of the best attempt only, else NULL */
    char *stderr_text;
    struct agt_verification *verification; /* NULL: its own tests did not pass. Owned */
    struct agt_stall_marks marks;
    struct agt_audit audit; /* of its tests; no change: nothing to tell */
};

/* Why a run is being stopped from outside. */
enum agt_stop {
    AGT_STOP_NONE,
    AGT_STOP_CANCEL,
    AGT_STOP_DEADLINE,
};

struct agt_run {
    uint32_t refs; /* atomic */
    char id[33];
    struct agt_event_log *log; /* a reference */

    /* Of a run that is left because another process has started one with its key: written before
     * is_suspended. */
    bool is_guest;      /* goes on in another process; constant after the start */
    uint32_t guest_seq; /* of its last event that is here; the store's thread */
    char twin_id[33];   /* "": none */
    bool is_twin_same;

    pthread_mutex_t lock;         /* guards the next five */
    uint32_t interrupt_seq;       /* of the event that told of it; 0: not interrupted. Written by
                                     the engine's thread alone */
    enum agt_node interrupt_node; /* what is done then */
    uint32_t resumed_seq;         /* of the last interrupt that somebody has taken up */
    struct agt_engine *engine;    /* borrowed; NULL once the run has ended */
    struct agt_mail *cancel_mail; /* made ahead, so that a cancel cannot fail; NULL once posted */

    /* Constant after the start. */
    struct cr_trace trace;  /* the span of the run */
    struct cr_trace parent; /* of who asked for it; not set: nobody's */
    int64_t began_ns;       /* since 1970 */
    char *task;
    int32_t max_iterations;
    char *model;                         /* as asked for; "" is the provider's default */
    char *model_requested;               /* the name that is in force */
    char *caller;                        /* for the journal */
    char *key;                           /* for the journal: of idempotency, or "" */
    int32_t iterations_asked;            /* for the journal: as in the spec */
    int verify_asked;                    /* the same */
    uint32_t format;                     /* of what is stored of it (journal.h) */
    struct agt_list hints;               /* for the journal; each for one time that it stalls */
    const char *damaged;                 /* a field that cannot be read; NULL: none */
    uint32_t interrupts;                 /* bits of nodes */
    Crisol__Sandbox__V1__Limits *limits; /* NULL: defaults. Owned */
    Crisol__Agent__V1__TaskTerms *terms; /* NULL: none. Owned */
    Crisol__Agent__V1__VerificationLevel verify;
    bool has_price; /* of the model; what follows is as in model/catalog.h */
    uint64_t input_price;
    uint64_t output_price;
    struct agt_stall_rules stall_rules;
    bool has_wall_budget; /* the budget ends it in time, not the service */
    int64_t started_ns;
    int64_t deadline_ns;
    int64_t heartbeat_ns; /* silence before a Heartbeat */

    /* All below: the engine's thread only. */
    struct agt_run *next; /* live runs of the engine */
    struct agt_run *previous;
    struct agt_timer timer;
    enum agt_node node;
    enum agt_outcome outcome; /* how the node ended; NONE while it works */
    enum agt_stop stop;
    struct agt_journal *journal; /* NULL: the run is not durable. Owned */
    uint32_t calls_in_flight;    /* held ones, too */
    bool is_suspended;           /* left as it is, for another process to take up; atomic */
    bool wants_cancel;           /* once it has been repeated */
    bool has_passed_on;          /* the interrupt behind this visit is over */
    int64_t interrupted_ns;      /* when it began */
    bool has_ended;
    uint32_t steps;
    int32_t iteration; /* the current attempt: 1, 2, …; 0 before the first */
    uint32_t visits[AGT_NODE_COUNT];
    uint32_t *crossings; /* by edge of the graph; owned */
    uint32_t seq;        /* of the last state event */
    int64_t last_event_ns;
    int64_t retry_at_ns;       /* 0: not waiting */
    int64_t node_deadline_ns;  /* of this visit of the node */
    struct agt_call *call;     /* in flight; NULL: none. Owned until its end has come */
    struct agt_checks *checks; /* of the evaluator, with calls of their own; NULL: none. Owned */

    char *plan;
    struct agt_files files; /* of the current attempt */
    char *diff;
    char *complaint; /* what was wrong with the answer before; NULL: nothing */
    uint32_t format_retries;
    bool is_plain; /* the provider refused another form than fenced blocks, or functions */
    struct agt_tools *tools; /* what the model has run for the question at hand; NULL: nothing.
                                Owned */
    struct agt_tries tries;
    bool has_numbered_checks;       /* runs of older programs have not, nor do theirs stop early */
    struct agt_audit audit;         /* of the tests of the current attempt */
    struct agt_stall_marks marks;   /* of the current attempt */
    enum agt_stall_step stall_step; /* the last that was taken */
    char *stall_note;               /* what repeats itself, for the next prompt; NULL: nothing */
    size_t hints_taken;             /* the last of them is in force */
    size_t hinted_at;               /* attempts that there were when it was taken */
    char *frozen_tests; /* the tests that a later answer may not weaken; NULL: none yet */
    int32_t frozen_at;  /* attempt that they are from */
    Crisol__Sandbox__V1__ExecuteResult *execution; /* for the evaluator. Owned */
    char *stdout_text;
    char *stderr_text;

    struct agt_attempt *attempts; /* NULL: none. Owned */
    size_t attempt_count;
    size_t attempt_room;
    size_t best; /* index; only with attempt_count > 0 */
    struct agt_list errors;
    struct agt_list warnings;
    struct agt_list models_served;
    Crisol__Agent__V1__ModelUsage usage;
    Crisol__Agent__V1__FailureCause cause;
    char *failure; /* one sentence on what ended the run; NULL: none */
    struct agt_receipt receipt;
};

/* 32 random hexadecimal digits and a NUL. */
void agt_run_make_id(char id[static 33]);

/* Makes a run with one reference. The spec is valid. Returns 0 or -ENOMEM. */
int agt_run_new(struct agt_engine *engine, const struct agt_run_spec *spec,
                struct agt_run **ret_run);

/* Frees what only the work on the run needed: what became of it is in its events. */
void agt_run_shed(struct agt_run *run);

/* ---- run.c: the engine's thread drives the run with these ---- */

void agt_run_begin(struct agt_run *run);
void agt_run_stop(struct agt_run *run, enum agt_stop stop);
/* Leaves a durable run to the next process: no call of it goes on, and it has no end here. */
void agt_run_suspend(struct agt_run *run);

/* The end of a call, live or recorded. Frees it. */
void agt_run_on_call_end(struct agt_run *run, struct agt_call *call);

void agt_run_on_mail(struct agt_run *run, struct agt_mail *mail);
void agt_run_on_time(struct agt_run *run, int64_t now_ns);
int64_t agt_run_due_ns(const struct agt_run *run);

/* Takes edges until the run has to wait, or has ended. */
void agt_run_drive(struct agt_run *run);

/* ---- interrupt.c ---- */

/* The run waits for agt_run_resume(): now or already. */
bool agt_run_pauses(struct agt_run *run);
bool agt_run_is_paused(const struct agt_run *run);

/* The end of the pause, as an event tells of it. Drives the run. */
void agt_run_take_up(struct agt_run *run, const Crisol__Agent__V1__Resumed *edits);

/* Somebody has asked for that. */
void agt_run_on_resume(struct agt_run *run, const struct agt_mail *mail);

/* The end of the pause without more: the run is being stopped. */
void agt_run_end_pause(struct agt_run *run);

/* Ends the current node. The first outcome of a visit counts. */
void agt_run_set_outcome(struct agt_run *run, enum agt_outcome outcome);

/* Ends the current node with FAILED, for this cause. */
void agt_run_fail(struct agt_run *run, Crisol__Agent__V1__FailureCause cause, const char *format,
                  ...) __attribute__((format(printf, 3, 4)));

/* Completes the event (run, number, time, attempt, node) and gives it to the log. */
void agt_run_emit(struct agt_run *run, Crisol__Agent__V1__RunEvent *event);

/* Formats a copy; nothing happens when the list is full, or its last item says the same. */
void agt_list_add(struct agt_list *list, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void agt_list_done(struct agt_list *list);

/* The last that reached a verdict; NULL: none yet. */
const struct agt_attempt *agt_run_last_attempt(const struct agt_run *run);

/* ---- node_*.c ---- */

void agt_planner_enter(struct agt_run *run);
void agt_planner_on_end(struct agt_run *run, struct agt_call *call);
void agt_generator_enter(struct agt_run *run);
/* The same question once more, with what the model has run meanwhile. */
void agt_generator_ask(struct agt_run *run);
void agt_generator_on_end(struct agt_run *run, struct agt_call *call);
/* The files of the answer are others now: what was noted of them is noted anew. */
void agt_generator_note_edits(struct agt_run *run);
void agt_sandbox_enter(struct agt_run *run);
void agt_sandbox_on_end(struct agt_run *run, struct agt_call *call);
void agt_evaluator_enter(struct agt_run *run);
void agt_evaluator_on_end(struct agt_run *run, struct agt_call *call);
void agt_evaluator_on_time(struct agt_run *run, int64_t now_ns);

/* A run in a sandbox of its own, of pytest when nothing else is said. Borrowed. */
struct agt_execution {
    char *solution;                /* NULL: not there */
    char *tests;                   /* NULL: neither these nor those of the task */
    const struct agt_files *files; /* whose further files go along; NULL: none do */
    char *const *more;             /* in place of those, by index; NULL, or one is: as they are */
    char *const *acceptance;       /* in place of the task's tests, likewise */
    const char *code;              /* a program for the runtime "python" instead; NULL: none */
    char *stdin_text;              /* for it; NULL: nothing */
    const Crisol__Agent__V1__OwnCheck *own; /* a command instead; NULL: none */
    const char *suffix;    /* tells the requests of one step apart; at most 20 bytes */
    uint32_t wall_time_ms; /* 0: the limit of the run */
    bool is_quiet;         /* no event, and no output but of `code` and `own` */
    bool may_stop;         /* pytest need not go on behind the first test that fails */
};

/* As agt_call_start_sandbox(). */
int agt_sandbox_execute(struct agt_run *run, const struct agt_execution *execution,
                        struct agt_call **ret_call, struct cr_err *err);

/* What a program wrote as UTF-8, to free(). NULL: out of memory. */
char *agt_sandbox_text(const struct cr_buf *bytes);

/* Keeps the first `cases` tests of the report, and the details of the first `details` of them. */
void agt_sandbox_trim(Crisol__Sandbox__V1__ExecuteResult *result, size_t cases, size_t details);

/* ---- run_result.c ---- */

/* Emits the last event: the whole result. */
void agt_run_emit_result(struct agt_run *run);
