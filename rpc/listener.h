/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sys/types.h>

struct cr_edge;
struct cr_err;
struct rpc_server;
struct tls_context;

/*
 * Accepts connections for a server, because libgrpc's own listener dies of fd
 * exhaustion and has no caps per peer (CVE-2023-4785 class): own accept, then
 * rpc/guard relays plaintext HTTP/2 to gRPC core through a socketpair and
 * counts frames as it goes. One thread of its own for all addresses. TLS ends
 * here, in front of the guard, so that the same holds on encrypted ports.
 */
struct rpc_listener;

struct rpc_listener_options {
    const struct cr_edge *edge; /* caps and rates. Copied. NULL: the defaults of common/edge.h.
                                   max_streams as in rpc_server_options */
    const uid_t *allowed_uids;  /* unix sockets: who may connect, at most 64. Borrowed for the
                                   call. NULL: everybody whom the mode of the socket lets in */
    size_t allowed_uid_count;
    struct tls_context *tls; /* asked of every TCP connection. Borrowed; outlives the listener.
                                NULL: plain text */
};

int rpc_listener_new(struct rpc_server *server, const struct rpc_listener_options *options,
                     struct rpc_listener **ret_listener, struct cr_err *err);

/*
 * Adds an address, before start:
 *   "unix:/path"  socket file, mode 0600; its folder is made with 0700 when missing. A lock file
 *                 beside it ("path.lock") keeps two servers apart: -EADDRINUSE names the path. A
 *                 stale socket is replaced.
 *   "host:port"   TCP, "[::1]:50051" for IPv6; port 0 takes a free one. -EADDRINUSE names the port
 *                 and, when /proc tells, the process that holds it.
 */
int rpc_listener_add(struct rpc_listener *listener, const char *address, struct cr_err *err);

/* Adds a listening socket made by somebody else (a supervisor, systemd). Takes the fd on success.
 */
int rpc_listener_take_fd(struct rpc_listener *listener, int fd, struct cr_err *err);

/* The TCP port of the n-th address added; 0 for a unix socket. */
uint16_t rpc_listener_port(const struct rpc_listener *listener, size_t index);

int rpc_listener_start(struct rpc_listener *listener, struct cr_err *err);

/* Stops accepting; live connections go on. Removes its socket files. Safe to repeat. */
void rpc_listener_stop(struct rpc_listener *listener);

/* Call order: rpc_listener_stop, rpc_server_drain, rpc_listener_free, rpc_server_free. NULL is
 * allowed; always returns NULL. */
struct rpc_listener *rpc_listener_free(struct rpc_listener *listener);
