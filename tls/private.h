/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "tls/context.h"

#include <openssl/ssl.h>

/* Internal to tls/. */

/* A connection with what is in force now. NULL before the first certificate, or on -ENOMEM. */
SSL *tls_context_connect(struct tls_context *context);

const struct tls_context_options *tls_context_options(const struct tls_context *context);

/*
 * Called in the middle of a handshake, once the chain of the client's
 * certificate is good: decides by its names. In stream.c.
 */
int tls_stream_verify(int is_good, X509_STORE_CTX *store);
