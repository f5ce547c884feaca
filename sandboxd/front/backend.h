/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "sandboxd/wire/msg.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cr_err;
struct cr_metrics;
struct sbx_audit;
struct sbx_sandboxes;
struct sbx_tails;
struct sbx_execution;

/*
 * The front's end of a backend: one thread, one epoll, that owns the wire
 * socket, the control socket to the supervisor, the pipes of every run, the
 * slots and the queue.
 *
 * The wire may be lost and given anew (the supervisor has restarted the
 * backend); in between every new run is refused with UNAVAILABLE.
 */
struct sbx_backend;

struct sbx_backend_options {
    int wire_fd;                     /* taken on success; -1: the supervisor will send one */
    int control_fd;                  /* taken on success; -1: none (tests) */
    size_t queue_length;             /* runs that may wait; 0: none */
    struct sbx_audit *audit;         /* borrowed: outlives the backend; NULL: none */
    struct sbx_sandboxes *sandboxes; /* likewise */
    struct sbx_tails *tails;         /* likewise */
    void *user;                      /* for the callbacks */
    /* HELLO came, or the wire was lost. On the stream thread. */
    void (*on_state)(void *user, bool is_up);
    /* The supervisor is gone. On the stream thread. */
    void (*on_orphaned)(void *user);
    /* New certificates (common/tls_files.h); takes the fd. Returns 0 when they are in use. On the
     * stream thread. */
    int (*on_tls)(void *user, int fd);
    /* New tokens (rpc/tokens.h); the same. */
    int (*on_tokens)(void *user, int fd);
};

int sbx_backend_new(const struct sbx_backend_options *options, struct sbx_backend **ret_backend,
                    struct cr_err *err);

/* Stops the thread: every run in flight is cancelled, and lost if the backend does not answer in
 * `deadline_ms`. NULL is allowed; always returns NULL. */
struct sbx_backend *sbx_backend_free(struct sbx_backend *backend, int deadline_ms);

/* Any thread: the lists of sandboxes or of tails have something for the stream thread. */
void sbx_backend_nudge(struct sbx_backend *backend);

/* Any thread: from now on new and waiting runs are refused with UNAVAILABLE; what runs goes on. */
void sbx_backend_drain(struct sbx_backend *backend);

/* Any thread: what the backend said about itself. False while there is none. */
bool sbx_backend_hello(struct sbx_backend *backend, struct sbx_msg_hello *ret_hello);

/* The backend's pool. */
struct sbx_pool_counts {
    uint32_t ready;  /* boxes that waited when the backend last spoke of it */
    uint64_t hits;   /* runs that got one, since the front was started */
    uint64_t misses; /* runs that did not */
};

/* Any thread. */
void sbx_backend_pool(struct sbx_backend *backend, struct sbx_pool_counts *ret_counts);

/* Who runs and who waits, now. */
struct sbx_backend_load {
    uint32_t slots; /* 0: there is no backend */
    uint32_t running;
    uint32_t waiting;
    uint64_t memory_bytes; /* that the limits of runs may add up to; 0: any sum */
    uint64_t memory_taken; /* by those that run */
};

/* Any thread. */
void sbx_backend_get_load(struct sbx_backend *backend, struct sbx_backend_load *ret_load);

/* Writes sandboxd_…, in Prometheus' text format. Any thread. */
void sbx_backend_write_metrics(struct sbx_backend *backend, struct cr_metrics *metrics);

size_t sbx_backend_queue_length(const struct sbx_backend *backend);

/* Any thread. Turns of the stream thread (common/turns.h). */
uint64_t sbx_backend_turns(const struct sbx_backend *backend);

/* Any thread: tells the supervisor that the front turns. */
void sbx_backend_report_turns(struct sbx_backend *backend);

/* Any thread: tells the supervisor that the front serves. */
void sbx_backend_report_ready(struct sbx_backend *backend);

/* For execution.c: the stream thread is to look at its kicks. Takes the reference. */
void sbx_backend_post(struct sbx_backend *backend, struct sbx_execution *execution);
