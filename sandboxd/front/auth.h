/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rpc_peer;
struct rpc_status;

#define SBX_UIDS_MAX 64U
#define SBX_TOKEN_MAX 4096U
#define SBX_TOKEN_MIN 16U

/* Who may call: user ids on a unix socket; on TCP whoever has shown a certificate, which the
 * listener has looked at, or has the token. */
struct sbx_auth {
    uint32_t uids[SBX_UIDS_MAX];
    size_t uid_count;
    char token[SBX_TOKEN_MAX + 1];
    size_t token_size; /* 0: nobody gets in by TCP */
};

/*
 * Decides about a peer. `authorization` is the value of that metadata key,
 * NULL when the call has none. The token is compared in constant time. Pure.
 * Fills in `status` (UNAUTHENTICATED, or PERMISSION_DENIED for a user id that
 * is not listed) and returns false to refuse.
 */
bool sbx_auth_decide(const struct sbx_auth *auth, const struct rpc_peer *peer,
                     const char *authorization, size_t size, struct rpc_status *status);

/* Reads "0,1000" into the list. Returns 0 or -EINVAL. */
int sbx_auth_parse_uids(struct sbx_auth *auth, const char *list);

/* Reads the token from a descriptor up to its end; one line break at the end is cut. Returns 0,
 * -EINVAL for a token that is too short, too long or not printable, or another -errno. */
int sbx_auth_read_token(struct sbx_auth *auth, int fd);

/* The key of quotas and ownership. `key` has room for 64 bytes. */
void sbx_auth_caller(const struct rpc_peer *peer, char key[64]);
