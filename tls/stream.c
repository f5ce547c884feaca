/* SPDX-License-Identifier: Apache-2.0 */
#include "tls/stream.h"

#include "tls/names.h"
#include "tls/private.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/x509_vfy.h>

#include <sys/socket.h>

#define RECORD_HANDSHAKE 0x16 /* RFC 8446, section 5.1: every client begins with one */
#define FAULT_MAX 384
/* Messages of the protocol after the handshake (new keys): each costs a derivation, honest clients
 * send one in hours. */
#define LATE_MESSAGES_MAX 32

struct tls_stream {
    SSL *ssl;
    int fd; /* borrowed */
    bool has_begun;
    bool is_open;
    bool wants_write;
    bool is_refused;                           /* by name */
    const struct tls_context_options *options; /* borrowed */
    unsigned late_messages;
    char name[TLS_NAME_MAX];
    char fault[FAULT_MAX];
};

/* ---- the handshake ---- */

/* Counts what a client sends after the handshake that is no data. */
static void on_message(int is_sent, int version, int type, const void *data, size_t size, SSL *ssl,
                       void *user)
{
    struct tls_stream *stream = user;

    (void)version;
    (void)data;
    (void)size;
    (void)ssl;
    if (!is_sent && stream->is_open && type == SSL3_RT_HANDSHAKE)
        stream->late_messages++;
}

struct tls_stream *tls_stream_new(struct tls_context *context, int fd)
{
    struct tls_stream *stream = calloc(1, sizeof(*stream));

    if (!stream)
        return NULL;
    stream->fd = fd;
    stream->options = tls_context_options(context);
    stream->ssl = tls_context_connect(context);
    if (!stream->ssl || SSL_set_fd(stream->ssl, fd) != 1)
        return tls_stream_free(stream);
    SSL_set_app_data(stream->ssl, stream);
    SSL_set_msg_callback(stream->ssl, on_message);
    SSL_set_msg_callback_arg(stream->ssl, stream);
    SSL_set_accept_state(stream->ssl);
    return stream;
}

struct tls_stream *tls_stream_free(struct tls_stream *stream)
{
    if (stream)
        SSL_free(stream->ssl);
    ERR_clear_error();
    free(stream);
    return NULL;
}

int tls_stream_verify(int is_good, X509_STORE_CTX *store)
{
    const SSL *ssl = X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx());
    struct tls_stream *stream = SSL_get_app_data(ssl);

    if (!is_good || X509_STORE_CTX_get_error_depth(store) > 0)
        return is_good;
    if (tls_names_find(X509_STORE_CTX_get_current_cert(store), stream->options->allowed_names,
                       stream->name))
        return 1;
    stream->is_refused = true;
    X509_STORE_CTX_set_error(store, X509_V_ERR_APPLICATION_VERIFICATION);
    return 0;
}

static const char *certificate_fault(long verdict)
{
    switch (verdict) {
    case X509_V_ERR_CERT_HAS_EXPIRED:
        return "the client's certificate, or one above it, has expired";
    case X509_V_ERR_CERT_NOT_YET_VALID:
        return "the client's certificate is not valid yet";
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    case X509_V_ERR_CERT_SIGNATURE_FAILURE: /* one of the same name */
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
        return "the client's certificate is of an authority that is not ours";
    case X509_V_ERR_INVALID_PURPOSE:
        return "the client's certificate is not one for clients";
    default:
        return X509_verify_cert_error_string(verdict);
    }
}

static const char *protocol_fault(int reason)
{
    switch (reason) {
    case SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE:
        return "the client shows no certificate";
    case SSL_R_UNSUPPORTED_PROTOCOL:
    case SSL_R_VERSION_TOO_LOW:
    case SSL_R_WRONG_VERSION_NUMBER:
        return "the client offers no TLS from 1.2 on";
    case SSL_R_NO_APPLICATION_PROTOCOL:
        return "the client does not offer the protocol of this port (ALPN)";
    case SSL_R_NO_SHARED_CIPHER:
        return "the client offers no cipher of ours";
    default:
        return NULL;
    }
}

static void set_fault(struct tls_stream *stream, const char *text)
{
    (void)snprintf(stream->fault, sizeof(stream->fault), "TLS: %s", text);
}

/* What the library said, or the socket. */
static enum tls_step explain(struct tls_stream *stream)
{
    unsigned long error = ERR_peek_error();
    long verdict = SSL_get_verify_result(stream->ssl);
    const char *text;

    if (stream->is_refused) {
        (void)snprintf(stream->fault, sizeof(stream->fault),
                       "TLS: the client's certificate has no name that is allowed (first: %s)",
                       stream->name[0] ? stream->name : "none");
        return TLS_STEP_FAILED;
    }
    if (error == 0 || ERR_GET_REASON(error) == SSL_R_UNEXPECTED_EOF_WHILE_READING)
        return TLS_STEP_LEFT;
    text =
        verdict == X509_V_OK ? protocol_fault(ERR_GET_REASON(error)) : certificate_fault(verdict);
    if (!text)
        text = ERR_reason_error_string(error);
    set_fault(stream, text ? text : "the handshake failed");
    return TLS_STEP_FAILED;
}

/* The library would answer a client that speaks plain HTTP/2 with an error that names no reason. */
static enum tls_step check_first_byte(struct tls_stream *stream)
{
    unsigned char first;
    ssize_t size = recv(stream->fd, &first, 1, MSG_PEEK | MSG_DONTWAIT);

    if (size < 0)
        return errno == EAGAIN || errno == EINTR ? TLS_STEP_WAIT : TLS_STEP_LEFT;
    if (size == 0)
        return TLS_STEP_LEFT;
    if (first != RECORD_HANDSHAKE) {
        set_fault(stream, "the client speaks plain text on a port of TLS");
        return TLS_STEP_FAILED;
    }
    stream->has_begun = true;
    return TLS_STEP_DONE;
}

static enum tls_step finish_handshake(struct tls_stream *stream)
{
    const unsigned char *name = NULL;
    unsigned int size = 0;

    SSL_get0_alpn_selected(stream->ssl, &name, &size);
    if (size == 0 && stream->options->requires_protocol) {
        set_fault(stream, "the client does not offer the protocol of this port (ALPN)");
        return TLS_STEP_FAILED;
    }
    stream->is_open = true;
    return TLS_STEP_DONE;
}

enum tls_step tls_stream_handshake(struct tls_stream *stream)
{
    int r;

    if (!stream->has_begun) {
        enum tls_step step = check_first_byte(stream);

        if (step != TLS_STEP_DONE)
            return step;
    }
    ERR_clear_error();
    r = SSL_accept(stream->ssl);
    if (r == 1)
        return finish_handshake(stream);
    r = SSL_get_error(stream->ssl, r);
    stream->wants_write = r == SSL_ERROR_WANT_WRITE;
    if (r == SSL_ERROR_WANT_READ || r == SSL_ERROR_WANT_WRITE)
        return TLS_STEP_WAIT;
    return explain(stream);
}

const char *tls_stream_fault(const struct tls_stream *stream)
{
    return stream->fault;
}

const char *tls_stream_name(const struct tls_stream *stream)
{
    return stream->name;
}

/* ---- data ---- */

/* Sets errno for a call that gave nothing, and returns what it is to return. */
static ssize_t nothing(struct tls_stream *stream, int result)
{
    int error = SSL_get_error(stream->ssl, result);

    ERR_clear_error();
    stream->wants_write = error == SSL_ERROR_WANT_WRITE;
    if (error == SSL_ERROR_ZERO_RETURN)
        return 0;
    errno = error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE ? EAGAIN : ECONNRESET;
    return -1;
}

ssize_t tls_stream_read(struct tls_stream *stream, void *data, size_t size)
{
    size_t got = 0;
    int r;

    ERR_clear_error();
    r = SSL_read_ex(stream->ssl, data, size, &got);
    if (stream->late_messages > LATE_MESSAGES_MAX) {
        errno = ECONNRESET;
        return -1;
    }
    if (r != 1)
        return nothing(stream, r);
    stream->wants_write = false;
    return (ssize_t)got;
}

ssize_t tls_stream_write(struct tls_stream *stream, const void *data, size_t size)
{
    size_t sent = 0;
    int r;

    ERR_clear_error();
    r = SSL_write_ex(stream->ssl, data, size, &sent);
    if (r != 1)
        return nothing(stream, r);
    stream->wants_write = false;
    return (ssize_t)sent;
}

bool tls_stream_has_rest(const struct tls_stream *stream)
{
    return SSL_pending(stream->ssl) > 0;
}

bool tls_stream_wants_write(const struct tls_stream *stream)
{
    return stream->wants_write;
}

void tls_stream_end(struct tls_stream *stream)
{
    ERR_clear_error();
    if (stream->is_open)
        (void)SSL_shutdown(stream->ssl);
    ERR_clear_error();
}

void tls_stream_caller(const char *name, char *caller, size_t size)
{
    unsigned char digest[EVP_MAX_MD_SIZE] = {0};
    size_t kept = size > 24 ? size - 24 : 0; /* "san:", "~", 16 digits and the end */

    if ((size_t)snprintf(caller, size, "san:%s", name) < size)
        return;
    (void)EVP_Digest(name, strlen(name), digest, NULL, EVP_sha256(), NULL);
    (void)snprintf(caller, size, "san:%.*s~%02x%02x%02x%02x%02x%02x%02x%02x", (int)kept, name,
                   digest[0], digest[1], digest[2], digest[3], digest[4], digest[5], digest[6],
                   digest[7]);
}
