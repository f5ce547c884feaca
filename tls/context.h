/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct cr_err;
struct cr_tls_material;

/*
 * What a TLS server shows and asks for. Certificates may be replaced at any
 * time: connections that are open keep what they began with. Any thread.
 *
 * TLS 1.2 and 1.3, forward secrecy only; neither renegotiation, compression
 * nor resumption, so each connection has proven its certificate anew.
 */
struct tls_context;

struct tls_context_options {
    /* "h2" or "http/1.1". A client that offers others only is refused. Static storage. */
    const char *protocol;
    bool requires_protocol; /* one that offers none, too */
    /* Names that a client's certificate must have one of, behind commas; NULL or "": any. Copied.
     * Asked only when the material has an authority. */
    const char *allowed_names;
};

int tls_context_new(const struct tls_context_options *options, struct tls_context **ret_context,
                    struct cr_err *err);
struct tls_context *tls_context_free(struct tls_context *context); /* NULL is allowed; returns it */

/*
 * Takes a certificate with its key, and with an authority asks clients for a
 * certificate of it. Refuses, and keeps what was there: a key that does not
 * belong to the certificate, one with a pass phrase, a certificate that has
 * expired, an authority that is missing while there was one.
 * Returns 0 or -EINVAL, -ENOMEM. The texts name neither file nor content.
 */
int tls_context_load(struct tls_context *context, const struct cr_tls_material *material,
                     struct cr_err *err);

/* Whether a client could use the material: as tls_context_load(), without an own certificate when
 * there is none. */
int tls_pair_check(const struct cr_tls_material *material, struct cr_err *err);

#define TLS_SUMMARY_MAX 256
/* "serial=0A1B not_after=2026-12-01T00:00:00Z client_certificates=required", for logs. "" before
 * the first. */
void tls_context_describe(struct tls_context *context, char summary[TLS_SUMMARY_MAX]);

/* Until when the certificate is good, in seconds since 1970; 0 before the first. */
int64_t tls_context_end_s(struct tls_context *context);
