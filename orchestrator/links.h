/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

struct agt_config;
struct cr_err;
struct cr_renewals;
struct cr_tls_material;
struct rpc_channel;
struct rpc_tokens;
struct tls_context;

/*
 * Certificates and secrets of the links to callers and to sandboxd. Read
 * before privileges are dropped, since files may be root's alone; read again,
 * as whoever the process is by then, when they change. Main thread.
 */
struct agt_links;

int agt_links_open(const struct agt_config *config, struct agt_links **ret_links,
                   struct cr_err *err);
struct agt_links *agt_links_free(struct agt_links *links); /* NULL is allowed; returns NULL */

/* NULL: plain text. Borrowed. */
struct tls_context *agt_links_grpc(const struct agt_links *links);
struct tls_context *agt_links_http(const struct agt_links *links);
const struct cr_tls_material *agt_links_sandbox(const struct agt_links *links);

/* Of callers; NULL: none is asked for. Borrowed. */
struct rpc_tokens *agt_links_tokens(const struct agt_links *links);

/* What became of those that were read anew; any thread. Borrowed. */
const struct cr_renewals *agt_links_renewals(const struct agt_links *links);

/* The token for sandboxd, as it was read first; NULL: none. Borrowed. */
const char *agt_links_sandbox_token(const struct agt_links *links);

/*
 * Looks whether the files have changed, or takes them anew all the same
 * (`is_forced`), and lets new connections have what they say; those that are
 * open stay. What is of no use is logged, and the old one kept. `channel` is
 * the one to sandboxd.
 */
void agt_links_refresh(struct agt_links *links, struct rpc_channel *channel, bool is_forced);
