/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/front/auth.h"

#include "rpc/server.h"
#include "rpc/status.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <openssl/crypto.h>

static const char scheme[] = "Bearer ";

static bool is_token(const struct sbx_auth *auth, const char *authorization, size_t size)
{
    size_t prefix = sizeof(scheme) - 1;

    /* The length of the token is no secret; its bytes are. */
    if (auth->token_size == 0 || !authorization || size != prefix + auth->token_size ||
        strncasecmp(authorization, scheme, prefix) != 0)
        return false;
    return CRYPTO_memcmp(authorization + prefix, auth->token, auth->token_size) == 0;
}

bool sbx_auth_decide(const struct sbx_auth *auth, const struct rpc_peer *peer,
                     const char *authorization, size_t size, struct rpc_status *status)
{
    if (!peer->is_unix) {
        if (peer->is_certified)
            return true;
        if (is_token(auth, authorization, size))
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

static bool is_printable(const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        if (text[i] <= ' ' || text[i] > '~')
            return false;
    }
    return true;
}

int sbx_auth_read_token(struct sbx_auth *auth, int fd)
{
    size_t used = 0;

    while (used < sizeof(auth->token)) {
        ssize_t n = read(fd, auth->token + used, sizeof(auth->token) - used);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        if (n == 0)
            break;
        used += (size_t)n;
    }
    if (used > 0 && auth->token[used - 1] == '\n')
        used--;
    if (used < SBX_TOKEN_MIN || used > SBX_TOKEN_MAX || !is_printable(auth->token, used))
        return -EINVAL;
    auth->token[used] = '\0';
    auth->token_size = used;
    return 0;
}

void sbx_auth_caller(const struct rpc_peer *peer, char key[64])
{
    (void)snprintf(key, 64, "%s", peer->is_unix || peer->is_certified ? peer->caller : "token");
}
