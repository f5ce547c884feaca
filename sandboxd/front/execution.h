/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "crisol/sandbox/v1/sandbox.pb-c.h"
#include "rpc/status.h"
#include "sandboxd/front/collect.h"
#include "sandboxd/front/output.h"
#include "sandboxd/front/request.h"
#include "sandboxd/wire/msg.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cr_buf;
struct cr_err;
struct sbx_backend;
struct sbx_sandbox;

/*
 * One run, from the checked request to its result. Reference-counted; two
 * threads meet in it: the call's (this header) and the backend's stream
 * thread (run.h). They share it under its own lock, which is never held over
 * a wait.
 */
struct sbx_execution;

/* How the stream thread tells the owner that there is something to take. */
struct sbx_waker {
    void (*wake)(void *user);    /* from the stream thread; several may count as one */
    void (*release)(void *user); /* once: no further wake will come; NULL: nothing to release */
    void *user;
};

enum sbx_event_type {
    SBX_EVENT_NONE,      /* nothing now; a wake will follow */
    SBX_EVENT_STARTED,   /* the program is about to start */
    SBX_EVENT_DATA,      /* bytes were appended to the chunk */
    SBX_EVENT_TRUNCATED, /* bytes were dropped */
    SBX_EVENT_ENDED,     /* last: see sbx_execution_outcome() */
};

struct sbx_event {
    enum sbx_event_type type;
    uint32_t stream;  /* 1 stdout, 2 stderr */
    uint64_t offset;  /* of DATA */
    uint64_t dropped; /* TRUNCATED: so far */
};

/* How it ended. Valid and constant from SBX_EVENT_ENDED on. */
struct sbx_outcome {
    /* Refused before anything was started: everything but RPC_OK. Texts are static. */
    enum rpc_code refusal;
    const char *refusal_text;
    const char *refusal_reason; /* ErrorInfo; NULL: none */
    int32_t retry_after_ms;
    /* Else: */
    struct sbx_msg_result result;
    uint64_t queue_us;
    bool was_started;
};

#define SBX_CALLER_SELF "self" /* sandboxd's own runs: the first one, and versions of runtimes */

#define SBX_EXECUTION_ID_SIZE 33 /* 32 hexadecimal digits and the NUL */

/*
 * Makes an execution of a checked request: draws its id, seals its payload
 * and copies what the rest needs, so that `message` may go. `caller` is the
 * key of quotas and ownership. It is done for the trace that the thread works
 * for now. On failure nothing is left behind.
 * Returns 0, -ENOSPC when the payload is too large, or another -errno.
 */
int sbx_execution_new(const Crisol__Sandbox__V1__ExecuteRequest *message,
                      const struct sbx_request *request, const char *caller,
                      const struct sbx_waker *waker, struct sbx_execution **ret_execution,
                      struct cr_err *err);

/*
 * The compile stage of the same call, which has the same id: made as above,
 * of the request of sbx_request_compile(). `execution`, whose request says
 * that it has one, is made first, and complete only with what the stage left.
 */
int sbx_execution_new_compile(const Crisol__Sandbox__V1__ExecuteRequest *message,
                              const struct sbx_execution *execution,
                              const struct sbx_request *request, const struct sbx_waker *waker,
                              struct sbx_execution **ret_execution, struct cr_err *err);

/*
 * Completes one whose request has a compile stage, before submit, with what
 * that left (compiled.h). Returns as sbx_compiled_add(), or another -errno.
 */
int sbx_execution_complete(struct sbx_execution *execution, const void *compiled, size_t size,
                           struct cr_err *err);

/* Before submit: the sandbox that it runs in, which it leaves at its end. */
void sbx_execution_set_sandbox(struct sbx_execution *execution, struct sbx_sandbox *sandbox);

/* Before submit: what the audit log says as its policy. */
void sbx_execution_set_policy(struct sbx_execution *execution, const char *policy_digest);

/*
 * Before submit: it is work of sandboxd's own that nobody waits for. It starts
 * only when nobody else runs or waits, or else is refused, and is cancelled
 * when somebody comes.
 */
void sbx_execution_give_way(struct sbx_execution *execution);

/* Any thread. unref: NULL is allowed; always returns NULL. */
struct sbx_execution *sbx_execution_ref(struct sbx_execution *execution);
struct sbx_execution *sbx_execution_unref(struct sbx_execution *execution);

/* Hands it to the backend, once. The end comes as SBX_EVENT_ENDED in every case. */
void sbx_execution_submit(struct sbx_execution *execution, struct sbx_backend *backend);

/*
 * Asks for its death. Any thread, after submit; safe to repeat.
 * `is_abandoned`: nobody will take its output or its end.
 */
void sbx_execution_cancel(struct sbx_execution *execution, bool is_abandoned);

/* ---- interactive, from submit on ---- */

#define SBX_INPUT_MAX (256U << 10) /* that the program has not taken */

/* True while more input may be given. */
bool sbx_execution_wants_input(struct sbx_execution *execution);

/* Bytes for standard input; what it is closed for is dropped. Returns 0 or -ENOMEM. */
int sbx_execution_add_input(struct sbx_execution *execution, const void *data, size_t size);
void sbx_execution_close_input(struct sbx_execution *execution);

/* For the program, once it runs; a signal that waits already is one. `number`: 1 to
 * SBX_SIGNAL_MAX. */
void sbx_execution_signal(struct sbx_execution *execution, uint32_t number);
void sbx_execution_resize(struct sbx_execution *execution, uint16_t columns, uint16_t rows);

/* The next event; DATA appends to `chunk` (at most SBX_CHUNK_MAX bytes). Taking is what lets the
 * stream thread read on. One thread at a time. */
struct sbx_event sbx_execution_take(struct sbx_execution *execution, struct cr_buf *chunk);

/* ---- constant ---- */
const char *sbx_execution_id(const struct sbx_execution *execution);
const char *sbx_execution_request_id(const struct sbx_execution *execution);
const char *sbx_execution_caller(const struct sbx_execution *execution);
const struct sbx_request *sbx_execution_request(const struct sbx_execution *execution);
uint64_t sbx_execution_queue_us(struct sbx_execution *execution); /* from STARTED on */

/* ---- from SBX_EVENT_ENDED on ---- */
const struct sbx_outcome *sbx_execution_outcome(const struct sbx_execution *execution);
/* `stream` is 1 or 2. */
const struct sbx_output *sbx_execution_output(const struct sbx_execution *execution,
                                              uint32_t stream);
/* What the request asked for, in its order. */
const struct sbx_collected *sbx_execution_files(const struct sbx_execution *execution,
                                                size_t *ret_count);
/* The report of the runtime; NULL when the runtime has none. */
const struct sbx_collected *sbx_execution_report(const struct sbx_execution *execution);
