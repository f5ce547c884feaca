/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct cr_err;
struct sbx_child;
struct sbx_settings;

/*
 * Certificates and tokens: the front gets them as sealed memfds, at its start
 * and whenever the files change. It decides whether they are any good; until
 * it says so, a front that is started anew gets what was good before.
 */
struct sbx_secrets {
    int tls_fd;   /* common/tls_files.h; -1: none */
    int token_fd; /* -1: none */
    int next_tls_fd;
    int next_token_fd; /* handed to the front, which has not taken it yet; -1: none */
    uint64_t tls_stamp;
    uint64_t token_stamp; /* of the files that were read last */
};

#define SBX_SECRETS_INIT                                                                           \
    {                                                                                              \
        .tls_fd = -1, .token_fd = -1, .next_tls_fd = -1, .next_token_fd = -1                       \
    }

int sbx_secrets_open(const struct sbx_settings *settings, struct sbx_secrets *secrets,
                     struct cr_err *err);

/* Reads what has changed, or everything (`is_forced`), and gives it to the front. What cannot be
 * read is logged, and the old kept. */
void sbx_secrets_reload(const struct sbx_settings *settings, struct sbx_secrets *secrets,
                        const struct sbx_child *front, bool is_forced);

/* What the front had not taken is read anew at the next look, for the one that follows. */
void sbx_secrets_front_ended(struct sbx_secrets *secrets);

/* The front uses what it was given; `type` is SBX_LIFELINE_TLS or SBX_LIFELINE_TOKENS. */
void sbx_secrets_taken(struct sbx_secrets *secrets, uint32_t type);

/* Safe to repeat. */
void sbx_secrets_done(struct sbx_secrets *secrets);
