/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct cr_err;

/*
 * Bearer tokens (RFC 6750) and who has them. A file of them has a line for
 * each, "NAME TOKEN"; a single line may be a TOKEN alone. Empty lines and
 * those that begin with '#' do not count; one name may have several tokens, so
 * that a new one can be handed out before the old one goes. Only digests are
 * kept. May be replaced at any time. Any thread.
 */
struct rpc_tokens;

#define RPC_TOKEN_MIN 16U
#define RPC_TOKEN_MAX 4096U
#define RPC_TOKENS_MAX 256U                     /* lines */
#define RPC_TOKENS_FILE_MAX ((size_t)64 * 1024) /* bytes */
#define RPC_TOKEN_NAME_MAX 48U                  /* letters, digits, '.', '_' and '-' */

struct rpc_tokens *rpc_tokens_new(void);                       /* without any; NULL on -ENOMEM */
struct rpc_tokens *rpc_tokens_free(struct rpc_tokens *tokens); /* NULL is allowed; returns NULL */

/* Replaces all. Returns 0; -EINVAL with the number of the line that is wrong, and then everything
 * stays as it was. */
int rpc_tokens_load(struct rpc_tokens *tokens, const char *text, size_t size, struct cr_err *err);

/* The same from a descriptor, from its begin to its end. */
int rpc_tokens_read(struct rpc_tokens *tokens, int fd, struct cr_err *err);

/*
 * Who sent the value of an "authorization" field: "token:NAME", or "token" for
 * the one without a name. False when it is no token of ours. Takes as long
 * whichever it is, and whether any is.
 */
bool rpc_tokens_find(struct rpc_tokens *tokens, const char *authorization, size_t size,
                     char caller[64]);

/* How many there are. */
size_t rpc_tokens_count(struct rpc_tokens *tokens);
