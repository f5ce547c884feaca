/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "common/mailbox.h"
#include "sandboxd/front/admission.h"
#include "sandboxd/front/backend.h"
#include "sandboxd/front/meter.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

struct sbx_backend {
    struct sbx_backend_options options;
    struct cr_mailbox *mailbox;
    struct sbx_mail command; /* wakes the thread to look at the two flags */
    atomic_bool is_command_posted;
    atomic_bool is_draining;
    atomic_bool is_stopping;
    pthread_t thread;
    bool has_thread;
    atomic_uint_fast64_t turns; /* of the stream thread */

    struct sbx_meter meter;

    pthread_mutex_t lock; /* guards hello, load, pool and is_up */
    struct sbx_msg_hello hello;
    struct sbx_backend_load load; /* as it was after the last round */
    struct sbx_pool_counts pool;
    bool is_up;

    /* The stream thread's own. */
    struct sbx_run_host host;
    struct sbx_source wire;
    struct sbx_source control;
    struct sbx_source mail;
    struct sbx_admission admission;
    struct sbx_execution *dead; /* ended in this round; let go after it */
    int64_t stop_at_ns;
    bool is_wire_blocked;
};

/* backend_wire.c: the sockets to the backend and to the supervisor. All on the stream thread. */

/* Lets epoll report `events` of a source. Returns 0 or -errno. */
int sbx_backend_watch_source(struct sbx_backend *backend, struct sbx_source *source,
                             uint32_t events, bool is_new);

/* Of struct sbx_run_host; `user` is the backend. */
int sbx_backend_send_wire(void *user, const union sbx_msg *msg, const int *fds, size_t fd_count);

/* What is to be said about sandboxes. Returns 0, or -errno: the rest goes when the wire has room.
 */
int sbx_backend_flush_sandboxes(struct sbx_backend *backend);

/* The wire has room again. */
void sbx_backend_flush(struct sbx_backend *backend);

void sbx_backend_read_wire(struct sbx_backend *backend);
void sbx_backend_read_control(struct sbx_backend *backend);

/* Ends every run that has begun. Safe to repeat. */
void sbx_backend_lose(struct sbx_backend *backend, const char *why);
