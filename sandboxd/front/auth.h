/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rpc_peer;
struct rpc_status;
struct rpc_tokens;

#define SBX_UIDS_MAX 64U

/* Who may call: user ids on a unix socket; on TCP whoever has shown a certificate, which the
 * listener has looked at, or has the token. */
struct sbx_auth {
    uint32_t uids[SBX_UIDS_MAX];
    size_t uid_count;
    struct rpc_tokens *tokens; /* borrowed; NULL: nobody has one */
};

/*
 * Decides about a peer. `authorization` is the value of that metadata key,
 * NULL when the call has none. `caller` is the peer's, and becomes the
 * token's. Fills in `status` (UNAUTHENTICATED, or PERMISSION_DENIED for a user
 * id that is not listed) and returns false to refuse.
 */
bool sbx_auth_decide(const struct sbx_auth *auth, const struct rpc_peer *peer,
                     const char *authorization, size_t size, char caller[64],
                     struct rpc_status *status);

/* Reads "0,1000" into the list. Returns 0 or -EINVAL. */
int sbx_auth_parse_uids(struct sbx_auth *auth, const char *list);
