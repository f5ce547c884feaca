/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct rpc_peer;

/*
 * Internal to rpc/: who is at the other end of each connection, by the number
 * of the fd that gRPC core owns. One row per number that was ever used, so the
 * table is as large as the process's open file limit lets it get, and no
 * larger than RPC_PEERS_MAX. Any thread.
 */
#define RPC_PEERS_MAX 65536

struct rpc_peers;

/* NULL on -ENOMEM. */
struct rpc_peers *rpc_peers_new(void);
struct rpc_peers *rpc_peers_free(struct rpc_peers *peers); /* NULL is allowed; returns NULL */

/* Copies. Returns 0, -EMFILE when the number is beyond the table, or -ENOMEM. */
int rpc_peers_set(struct rpc_peers *peers, int fd, const struct rpc_peer *peer);

/* `name` is how core names a peer: "fd:12". False when it is no such name or nobody is there. */
bool rpc_peers_find(struct rpc_peers *peers, const char *name, struct rpc_peer *ret_peer);
