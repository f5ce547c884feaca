/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

struct cr_err;
struct rpc_peer;
struct rpc_server;

/*
 * Internal to rpc/: gives a connected stream that speaks plaintext HTTP/2 to
 * the server, with the server's own limits. `peer` is copied and becomes
 * rpc_call_peer() of every call on this connection.
 *
 * Takes the fd on success. Any thread, after rpc_server_start().
 *
 * There is no counterpart for the end of a connection: gRPC core keeps the fd
 * open until the last call of its connection is gone and names the fd as the
 * peer of a call, so a number that comes in a second time replaces an entry
 * that nobody can ask for any more.
 *
 * Returns 0, -ESHUTDOWN while draining, or another -errno.
 */
int rpc_server_add_connection(struct rpc_server *server, int fd, const struct rpc_peer *peer,
                              struct cr_err *err);
