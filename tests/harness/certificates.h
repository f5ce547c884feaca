/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "common/tls_files.h"

#include <openssl/evp.h>
#include <openssl/x509.h>

/* Certificates made in the test: an authority, and what it signs. P-256 throughout. */
struct test_authority {
    EVP_PKEY *key;
    X509 *certificate;
    char *pem; /* of the certificate */
};

void test_authority_init(struct test_authority *authority);
void test_authority_done(struct test_authority *authority);

/* What a certificate is to say. Zeroed: no name, for both sides, good for an hour. */
struct test_certificate {
    const char *names; /* "DNS:a.example,URI:spiffe://x"; NULL: none */
    const char *usage; /* "serverAuth", "clientAuth"; NULL: both */
    int begins_s;      /* from now; 0: a minute ago */
    int ends_s;        /* from now; 0: in an hour */
};

/* Certificate and key, with `trusted` (NULL: none) as the authority of the other side. To be given
 * to cr_tls_material_done(). */
struct cr_tls_material test_material(const struct test_authority *signer,
                                     const struct test_certificate *what,
                                     const struct test_authority *trusted);

/* Writes a PEM text to a file of mode 0600. */
void test_write_file(const char *folder, const char *name, const char *text);
