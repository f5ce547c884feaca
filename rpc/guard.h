/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "rpc/server.h"

#include <stdbool.h>
#include <stdint.h>

struct cr_edge;
struct cr_err;
struct rpc_guard;
struct rpc_h2_budget;
struct tls_stream;

/*
 * Stands between a client's socket and gRPC core: relays plaintext HTTP/2
 * through a socketpair, 16 KiB at a time with back-pressure both ways, and
 * closes the connection on the first fault that rpc/h2_frames sees. Core meets
 * a connection only once it has begun as HTTP/2 does. Frames that hold core up
 * are passed on a few at a time, so that a burst that is allowed does not
 * delay others. With TLS the frames are looked at once they are decrypted, so
 * nothing of the above differs. Internal to rpc/; all guards of a host belong
 * to its one thread.
 */

/* What the guards of one thread share. */
struct rpc_guard_host {
    int epoll_fd;               /* its events' data.ptr is a struct rpc_watch */
    const struct cr_edge *edge; /* borrowed: what connections may do */
    int64_t costly_ns;          /* until when costly frames are paid for */
    int64_t attach_ns;          /* when the next connection may be shown to core */
    int64_t leave_ns;           /* when core may hear of the next end of a connection */
    int64_t pass_ns;            /* of the pass over those that wait which goes on … */
    uint32_t pass_count;        /* … and how many had their turn in it */
    int64_t step_ns;            /* of the pass in which TLS handshakes go on … */
    uint32_t step_count;        /* … and how many have in it */
    int64_t resume_ns; /* when rpc_guard_resume() is due for all; set by guards that pause */
    bool has_timed;    /* set when a guard waits for something with a deadline */
    /* Takes the fd on success (rpc_server_add_connection). */
    int (*attach)(void *user, int fd, const struct rpc_peer *peer, struct cr_err *err);
    /*
     * The connection is over and its fds are closed; `reason` is NULL when it
     * just ended. Once per guard. More events may be on their way, so free it
     * only after the events at hand.
     */
    void (*on_dead)(void *user, struct rpc_guard *guard, const char *reason);
    /* The TLS handshake is over, and peer and caller are known. NULL: nothing. */
    void (*on_secured)(void *user, struct rpc_guard *guard);
    void *user;
};

/*
 * Takes `fd`, a connected non-blocking socket, on success, and watches it.
 * `host` and `budget` are borrowed and outlive the guard.
 */
int rpc_guard_new(struct rpc_guard_host *host, int fd, const struct rpc_peer *peer,
                  struct rpc_h2_budget *budget, int64_t now_ns, struct rpc_guard **ret_guard,
                  struct cr_err *err);

/* Right after it: TLS comes first. Takes the stream, which is one of the guard's own fd. */
void rpc_guard_secure(struct rpc_guard *guard, struct tls_stream *stream);

/* Closes what is open; on_dead is not called. NULL is allowed; returns NULL. */
struct rpc_guard *rpc_guard_free(struct rpc_guard *guard);

/* Ends the connection when a deadline has passed; sets host->has_timed when one is running. */
void rpc_guard_check_time(struct rpc_guard *guard, int64_t now_ns);

/* After host->resume_ns, which the caller sets to INT64_MAX before: goes on when its pause is over,
 * else sets it again. */
void rpc_guard_resume(struct rpc_guard *guard, int64_t now_ns);

/*
 * The server writes no more: the client is told so (half of its connection is
 * closed) once it has everything, and may close the rest. A connection that
 * was closed at once would fail its next write, and a client that sees that
 * throws away what it has not read: its result.
 */
void rpc_guard_finish(struct rpc_guard *guard, int64_t now_ns);

/* Borrowed. */
const struct rpc_peer *rpc_guard_peer(const struct rpc_guard *guard);

/* For the list that its owner keeps. */
struct rpc_guard_link {
    struct rpc_guard *next;
    struct rpc_guard *previous;
    void *owner_data;
    bool is_shaking; /* its TLS handshake is going on, and counted */
};
struct rpc_guard_link *rpc_guard_link(struct rpc_guard *guard);
