/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/front/auth.h"

#include "rpc/server.h"
#include "rpc/status.h"
#include "rpc/tokens.h"

#include <errno.h>
#include <stdlib.h>

bool sbx_auth_decide(const struct sbx_auth *auth, const struct rpc_peer *peer,
                     const char *authorization, size_t size, char caller[64],
                     struct rpc_status *status)
{
    if (!peer->is_unix) {
        if (peer->is_certified)
            return true;
        if (auth->tokens && rpc_tokens_find(auth->tokens, authorization, size, caller))
            return true;
        rpc_status_set(status, RPC_UNAUTHENTICATED,
                       "send the service's token as metadata: authorization: Bearer TOKEN");
        return false;
    }
    for (size_t i = 0; i < auth->uid_count; i++) {
        if (auth->uids[i] == peer->uid)
            return true;
    }
    rpc_status_set(status, RPC_PERMISSION_DENIED,
                   "user id %u may not use this service; its operator adds it with --allow-uid",
                   peer->uid);
    return false;
}

int sbx_auth_parse_uids(struct sbx_auth *auth, const char *list)
{
    const char *at = list;

    while (*at) {
        unsigned long uid;
        char *end;

        if (*at < '0' || *at > '9' || auth->uid_count == SBX_UIDS_MAX)
            return -EINVAL;
        errno = 0;
        uid = strtoul(at, &end, 10);
        if (errno != 0 || uid >= UINT32_MAX || (*end != ',' && *end != '\0'))
            return -EINVAL;
        auth->uids[auth->uid_count++] = (uint32_t)uid;
        at = *end == ',' ? end + 1 : end;
    }
    return 0;
}
