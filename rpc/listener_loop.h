/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "common/listen.h"
#include "rpc/guard.h"
#include "rpc/quota.h"
#include "rpc/watch.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sys/types.h>

struct cr_err;
struct rpc_server;
struct tls_context;

/* The listener's state and its thread. Internal to rpc/; the contract is in rpc/listener.h. */
#define RPC_LISTENER_ADDRESSES_MAX 16U
#define RPC_LISTENER_UIDS_MAX 64U

struct rpc_listener_address {
    struct rpc_watch watch;
    struct rpc_listener *listener;
    struct cr_listen listen;
    bool is_unix;
};

enum rpc_listener_command {
    RPC_LISTENER_RUN,
    RPC_LISTENER_STOP, /* accept nobody any more */
    RPC_LISTENER_QUIT, /* and end the thread */
};

struct rpc_listener {
    struct rpc_server *server; /* borrowed: outlives the listener */
    struct tls_context *tls;   /* borrowed: outlives the listener. NULL: plain text */
    struct cr_edge edge;
    struct rpc_quota_limits unix_limits;
    struct rpc_quota_limits tcp_limits;
    bool has_uids;
    size_t uid_count;
    uid_t uids[RPC_LISTENER_UIDS_MAX];

    size_t address_count;
    struct rpc_listener_address addresses[RPC_LISTENER_ADDRESSES_MAX];

    /* From here on the thread's own, once it runs. */
    struct rpc_watch command_watch;
    int command_fd; /* eventfd */
    int spare_fd;
    struct rpc_guard_host host;
    struct rpc_quotas *quotas;
    uint32_t handshakes; /* of TLS, that are going on */
    struct rpc_guard *live;
    struct rpc_guard *dead; /* to be freed after the events at hand */
    bool is_accepting;
    bool is_quitting;
    int64_t quit_ns;   /* when it ends at the latest */
    int64_t resume_ns; /* when to accept again; 0: not paused */
    int64_t sweep_ns;
    struct rpc_bucket log_bucket;
    uint32_t lines_left_out;

    bool has_thread;
    pthread_t thread;
    pthread_mutex_t lock; /* guards the three below */
    pthread_cond_t changed;
    enum rpc_listener_command command;
    bool is_stopped;
};

/* Opens what the thread needs. The fds of a zeroed listener are -1. */
int rpc_listener_loop_open(struct rpc_listener *listener, struct cr_err *err);

/* Starts the thread. */
int rpc_listener_loop_start(struct rpc_listener *listener, struct cr_err *err);

/* Tells the thread, and waits until it accepts nobody any more. Safe to repeat. */
void rpc_listener_loop_command(struct rpc_listener *listener, enum rpc_listener_command command);

/* While the thread does not use them. Safe to repeat. */
void rpc_listener_loop_close_addresses(struct rpc_listener *listener);

/* What to do for a new connection: set as on_ready of an address. */
void rpc_listener_loop_accept(struct rpc_watch *watch, uint32_t events, int64_t now_ns);

/* Ends the thread and closes everything. */
void rpc_listener_loop_done(struct rpc_listener *listener);
