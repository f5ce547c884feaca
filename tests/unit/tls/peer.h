/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "tests/harness/certificates.h"

#include <stdbool.h>

#include <openssl/ssl.h>

/* The client's side of TLS, by the library alone. */
struct peer {
    SSL_CTX *context;
    SSL *ssl;
    int fd; /* non-blocking; closed by peer_done() */
};

/* `own` (NULL: none) is the certificate to show; `protocols` as on the wire, NULL: none. Trusts
 * everybody. */
void peer_init(struct peer *peer, int fd, const struct cr_tls_material *own, const char *protocols);
void peer_done(struct peer *peer);

/* Goes on with the handshake. True once it is through. */
bool peer_shake(struct peer *peer);
