/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/tls/peer.h"

#include "common/auto.h"
#include "tests/harness/test.h"

#include <string.h>

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>

static void use_own(SSL_CTX *context, const struct cr_tls_material *own)
{
    BIO *certificate_text = BIO_new_mem_buf(own->part[CR_TLS_CERTIFICATE], -1);
    BIO *key_text = BIO_new_mem_buf(own->part[CR_TLS_KEY], -1);
    X509 *certificate = PEM_read_bio_X509(certificate_text, NULL, NULL, NULL);
    EVP_PKEY *key = PEM_read_bio_PrivateKey(key_text, NULL, NULL, NULL);

    assert_int_equal(SSL_CTX_use_certificate(context, certificate), 1);
    assert_int_equal(SSL_CTX_use_PrivateKey(context, key), 1);
    X509_free(certificate);
    EVP_PKEY_free(key);
    BIO_free(certificate_text);
    BIO_free(key_text);
}

void peer_init(struct peer *peer, int fd, const struct cr_tls_material *own, const char *protocols)
{
    peer->fd = fd;
    peer->context = SSL_CTX_new(TLS_client_method());
    assert_non_null(peer->context);
    if (own)
        use_own(peer->context, own);
    peer->ssl = SSL_new(peer->context);
    if (protocols)
        assert_int_equal(SSL_set_alpn_protos(peer->ssl, (const unsigned char *)protocols,
                                             (unsigned int)strlen(protocols)),
                         0);
    assert_int_equal(SSL_set_fd(peer->ssl, fd), 1);
    SSL_set_connect_state(peer->ssl);
}

void peer_done(struct peer *peer)
{
    SSL_free(peer->ssl);
    SSL_CTX_free(peer->context);
    cr_close_fd(&peer->fd);
    ERR_clear_error();
}

bool peer_shake(struct peer *peer)
{
    ERR_clear_error();
    return SSL_do_handshake(peer->ssl) == 1;
}
