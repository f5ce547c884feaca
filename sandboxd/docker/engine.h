/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cr_buf;
struct cr_err;
struct sbx_engine_address;

/*
 * The Engine API over its unix socket or its port, by libcurl. Calls of the runs go
 * through the multi socket interface and end in a callback; those of start and
 * stop wait. Every call has a deadline, every answer a cap. One thread.
 */
struct sbx_engine;

struct sbx_engine_request {
    const char *method;
    const char *path; /* from "/containers…" on; the version is put in front */
    const void *body; /* copied; NULL: none */
    size_t body_size;
    bool is_streamed; /* the body is what comes from body_fd up to its end; only for calls that
                         wait */
    int body_fd;      /* borrowed; a pipe */
    const char *content_type; /* static; NULL: application/json */
    int deadline_ms;          /* on a usual machine; see common/patience.h */
};

struct sbx_engine_answer {
    int error;        /* errno when there is no answer, else 0 */
    bool is_gone;     /* with an error: the engine itself does not answer any more */
    long status;      /* of HTTP */
    const char *body; /* terminated */
    const char *text; /* one clear line: what went wrong; "" for a status below 400 */
};

typedef void (*sbx_engine_on_answer)(void *user, uint64_t tag,
                                     const struct sbx_engine_answer *answer);

/* `socket` as for sbx_engine_address_parse(). Connects to nothing yet. */
int sbx_engine_new(const char *socket, struct sbx_engine **ret_engine, struct cr_err *err);

/* Calls in flight end without their callback. NULL is allowed; always returns NULL. */
struct sbx_engine *sbx_engine_free(struct sbx_engine *engine);

const struct sbx_engine_address *sbx_engine_address(const struct sbx_engine *engine);

/* "/v1.41" once sbx_engine_negotiate() succeeded. */
const char *sbx_engine_version(const struct sbx_engine *engine);

/*
 * Agrees on a version of the API. The error tells an engine that is absent,
 * dead, forbidden, silent, too old or too new apart, in one line each.
 */
int sbx_engine_negotiate(struct sbx_engine *engine, struct cr_err *err);

/* Waits for the answer. Returns 0 and the status, or -errno with a text. `answer` may be NULL. */
int sbx_engine_ask(struct sbx_engine *engine, const struct sbx_engine_request *request,
                   struct cr_buf *answer, long *ret_status, struct cr_err *err);

/* Begins a call; `on_answer` is called once, from sbx_engine_run(). */
int sbx_engine_call(struct sbx_engine *engine, const struct sbx_engine_request *request,
                    sbx_engine_on_answer on_answer, void *user, uint64_t tag);

/* For an event loop: readable when sbx_engine_run() has something to do, as it has at _next_ns().
 */
int sbx_engine_fd(const struct sbx_engine *engine);
int64_t sbx_engine_next_ns(const struct sbx_engine *engine);
void sbx_engine_run(struct sbx_engine *engine);

/* The "message" of an error answer, for a log line; cut to `size`. */
void sbx_engine_message(const char *body, char *ret_text, size_t size);
