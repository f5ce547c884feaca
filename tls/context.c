/* SPDX-License-Identifier: Apache-2.0 */
#include "tls/context.h"

#include "common/err.h"
#include "common/tls_files.h"
#include "tls/private.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>

#define CHAIN_DEPTH 5
#define CHAIN_MAX 16    /* certificates of ours, and of authorities */
#define PROTOCOL_MAX 16 /* bytes of the name of a protocol */
#define CIPHERS_TLS12 "ECDHE+AESGCM:ECDHE+CHACHA20"

struct tls_context {
    struct tls_context_options options;
    char *allowed_names;
    unsigned char protocols[PROTOCOL_MAX + 1]; /* as on the wire: a length, then the name */
    pthread_mutex_t lock;                      /* guards below */
    SSL_CTX *current;                          /* NULL before the first certificate */
    bool asks_clients;
    char summary[TLS_SUMMARY_MAX];
    int64_t end_s; /* of the certificate, since 1970 */
};

int tls_context_new(const struct tls_context_options *options, struct tls_context **ret_context,
                    struct cr_err *err)
{
    struct tls_context *context = calloc(1, sizeof(*context));
    size_t size = strlen(options->protocol);

    if (context && options->allowed_names)
        context->allowed_names = strdup(options->allowed_names);
    if (!context || size > PROTOCOL_MAX || (options->allowed_names && !context->allowed_names)) {
        free(context);
        return cr_err_set(err, ENOMEM, "out of memory for TLS");
    }
    context->options = *options;
    context->options.allowed_names = context->allowed_names;
    context->protocols[0] = (unsigned char)size;
    memcpy(&context->protocols[1], options->protocol, size);
    (void)pthread_mutex_init(&context->lock, NULL); /* cannot fail with default attributes */
    *ret_context = context;
    return 0;
}

struct tls_context *tls_context_free(struct tls_context *context)
{
    if (!context)
        return NULL;
    SSL_CTX_free(context->current);
    (void)pthread_mutex_destroy(&context->lock);
    free(context->allowed_names);
    free(context);
    return NULL;
}

const struct tls_context_options *tls_context_options(const struct tls_context *context)
{
    return &context->options;
}

/* ---- certificates ---- */

/* Nobody is there to be asked for a pass phrase; the library would ask the terminal. */
/* NOLINTNEXTLINE(readability-non-const-parameter): as the library's type has it */
static int no_pass_phrase(char *text, int size, int is_writing, void *user)
{
    (void)text;
    (void)size;
    (void)is_writing;
    (void)user;
    return -1;
}

/* Gives each certificate of a PEM text to `take`. Returns how many there were; -1 on a failure. */
static int read_certificates(const char *text, int (*take)(SSL_CTX *ssl, X509 *certificate, int at),
                             SSL_CTX *ssl)
{
    BIO *bio = BIO_new_mem_buf(text, -1);
    X509 *certificate;
    int count = 0;

    while (bio && count >= 0 &&
           (certificate = PEM_read_bio_X509(bio, NULL, no_pass_phrase, NULL))) {
        count = count < CHAIN_MAX && take(ssl, certificate, count) == 1 ? count + 1 : -1;
        X509_free(certificate);
    }
    BIO_free(bio);
    ERR_clear_error(); /* the end of the text is one */
    return count;
}

static int take_own(SSL_CTX *ssl, X509 *certificate, int at)
{
    if (at == 0)
        return SSL_CTX_use_certificate(ssl, certificate);
    return SSL_CTX_add1_chain_cert(ssl, certificate) == 1;
}

static int take_authority(SSL_CTX *ssl, X509 *certificate, int at)
{
    (void)at;
    return X509_STORE_add_cert(SSL_CTX_get_cert_store(ssl), certificate) == 1 &&
           SSL_CTX_add_client_CA(ssl, certificate) == 1;
}

static int use_key(SSL_CTX *ssl, const char *text, struct cr_err *err)
{
    BIO *bio = BIO_new_mem_buf(text, -1);
    EVP_PKEY *key = bio ? PEM_read_bio_PrivateKey(bio, NULL, no_pass_phrase, NULL) : NULL;
    bool is_ours =
        key && SSL_CTX_use_PrivateKey(ssl, key) == 1 && SSL_CTX_check_private_key(ssl) == 1;

    EVP_PKEY_free(key);
    BIO_free(bio);
    ERR_clear_error();
    if (!key)
        return cr_err_set(err, EINVAL,
                          "the key cannot be read: it must be PEM, without a pass phrase");
    if (!is_ours)
        return cr_err_set(err, EINVAL, "the key does not belong to the certificate");
    return 0;
}

static int use_own(SSL_CTX *ssl, const struct cr_tls_material *material, struct cr_err *err)
{
    const char *certificate = material->part[CR_TLS_CERTIFICATE];
    const char *key = material->part[CR_TLS_KEY];

    if (!certificate || !key)
        return cr_err_set(err, EINVAL, "the certificate or its key is empty");
    if (read_certificates(certificate, take_own, ssl) <= 0)
        return cr_err_set(err, EINVAL,
                          "the certificate cannot be used: it must be PEM, with a key of 2048 bits "
                          "of RSA or 224 of a curve at least");
    if (X509_cmp_current_time(X509_get0_notAfter(SSL_CTX_get0_certificate(ssl))) < 0)
        return cr_err_set(err, EINVAL, "the certificate has expired");
    return use_key(ssl, key, err);
}

static int use_authority(SSL_CTX *ssl, const char *authority, struct cr_err *err)
{
    if (read_certificates(authority, take_authority, ssl) <= 0)
        return cr_err_set(err, EINVAL, "the authority of clients cannot be read: it must be PEM");
    SSL_CTX_set_verify(ssl, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, tls_stream_verify);
    SSL_CTX_set_verify_depth(ssl, CHAIN_DEPTH);
    return 0;
}

/* ---- the library's settings ---- */

static int select_protocol(SSL *ssl, const unsigned char **ret_name, unsigned char *ret_size,
                           const unsigned char *offered, unsigned int offered_size, void *user)
{
    const struct tls_context *context = user;
    unsigned char *name = NULL;

    (void)ssl;
    if (SSL_select_next_proto(&name, ret_size, context->protocols, 1U + context->protocols[0],
                              offered, offered_size) != OPENSSL_NPN_NEGOTIATED)
        return SSL_TLSEXT_ERR_ALERT_FATAL;
    *ret_name = name;
    return SSL_TLSEXT_ERR_OK;
}

static SSL_CTX *make_ssl(struct tls_context *context)
{
    SSL_CTX *ssl = SSL_CTX_new(TLS_server_method());

    if (!ssl)
        return NULL;
    (void)SSL_CTX_set_options(ssl, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_TICKET |
                                       SSL_OP_NO_COMPRESSION | SSL_OP_CIPHER_SERVER_PREFERENCE);
    (void)SSL_CTX_set_session_cache_mode(ssl, SSL_SESS_CACHE_OFF);
    (void)SSL_CTX_set_num_tickets(ssl, 0);
    /* One record at a time: with retries, a client that sends records without data would hold a
     * read for as long as it likes. */
    (void)SSL_CTX_clear_mode(ssl, SSL_MODE_AUTO_RETRY);
    (void)SSL_CTX_set_mode(ssl, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_RELEASE_BUFFERS |
                                    SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    SSL_CTX_set_alpn_select_cb(ssl, select_protocol, context);
    if (SSL_CTX_set_min_proto_version(ssl, TLS1_2_VERSION) != 1 ||
        SSL_CTX_set_cipher_list(ssl, CIPHERS_TLS12) != 1) {
        SSL_CTX_free(ssl);
        return NULL;
    }
    return ssl;
}

/* Returns when its certificate ends. */
static int64_t summarize(SSL_CTX *ssl, bool asks_clients, char summary[TLS_SUMMARY_MAX])
{
    const X509 *certificate = SSL_CTX_get0_certificate(ssl);
    BIGNUM *number = ASN1_INTEGER_to_BN(X509_get0_serialNumber(certificate), NULL);
    char *serial = number ? BN_bn2hex(number) : NULL;
    char end[32] = "?";
    int64_t end_s = 0;
    struct tm when;

    if (ASN1_TIME_to_tm(X509_get0_notAfter(certificate), &when) == 1) {
        (void)strftime(end, sizeof(end), "%Y-%m-%dT%H:%M:%SZ", &when);
        end_s = timegm(&when);
    }
    (void)snprintf(summary, TLS_SUMMARY_MAX, "serial=%.80s not_after=%s client_certificates=%s",
                   serial ? serial : "?", end, asks_clients ? "required" : "none");
    OPENSSL_free(serial);
    BN_free(number);
    return end_s;
}

int tls_context_load(struct tls_context *context, const struct cr_tls_material *material,
                     struct cr_err *err)
{
    const char *authority = material->part[CR_TLS_AUTHORITY];
    SSL_CTX *ssl = make_ssl(context);
    char summary[TLS_SUMMARY_MAX];
    int r;

    if (!ssl)
        return cr_err_set(err, ENOMEM, "set up TLS");
    r = use_own(ssl, material, err);
    if (r == 0 && authority)
        r = use_authority(ssl, authority, err);
    else if (r == 0 && context->asks_clients)
        r = cr_err_set(err, EINVAL, "the authority of clients is empty");
    if (r == 0) {
        const int64_t end_s = summarize(ssl, authority != NULL, summary);
        SSL_CTX *before;

        (void)pthread_mutex_lock(&context->lock);
        before = context->current;
        context->current = ssl;
        context->asks_clients = authority != NULL;
        memcpy(context->summary, summary, sizeof(summary));
        context->end_s = end_s;
        (void)pthread_mutex_unlock(&context->lock);
        ssl = before; /* connections that use it hold it */
    }
    SSL_CTX_free(ssl);
    return r;
}

int tls_pair_check(const struct cr_tls_material *material, struct cr_err *err)
{
    const char *authority = material->part[CR_TLS_AUTHORITY];
    SSL_CTX *ssl = SSL_CTX_new(TLS_client_method());
    int r = 0;

    if (!ssl)
        return cr_err_set(err, ENOMEM, "set up TLS");
    if (material->part[CR_TLS_CERTIFICATE])
        r = use_own(ssl, material, err);
    if (r == 0 && authority && read_certificates(authority, take_authority, ssl) <= 0)
        r = cr_err_set(err, EINVAL, "the authority cannot be read: it must be PEM");
    SSL_CTX_free(ssl);
    return r;
}

void tls_context_describe(struct tls_context *context, char summary[TLS_SUMMARY_MAX])
{
    (void)pthread_mutex_lock(&context->lock);
    memcpy(summary, context->summary, TLS_SUMMARY_MAX);
    (void)pthread_mutex_unlock(&context->lock);
}

int64_t tls_context_end_s(struct tls_context *context)
{
    int64_t end_s;

    (void)pthread_mutex_lock(&context->lock);
    end_s = context->end_s;
    (void)pthread_mutex_unlock(&context->lock);
    return end_s;
}

SSL *tls_context_connect(struct tls_context *context)
{
    SSL *ssl;

    (void)pthread_mutex_lock(&context->lock);
    ssl = context->current ? SSL_new(context->current) : NULL;
    (void)pthread_mutex_unlock(&context->lock);
    return ssl;
}
