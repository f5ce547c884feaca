/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include <sys/types.h>

struct tls_context;

/*
 * The server's side of TLS on one connected, non-blocking socket. Never waits:
 * each call does what it can now. One thread at a time. SIGPIPE must be
 * ignored by the process.
 */
struct tls_stream;

/* `fd` is borrowed and outlives the stream. NULL without memory or certificate. */
struct tls_stream *tls_stream_new(struct tls_context *context, int fd);
struct tls_stream *tls_stream_free(struct tls_stream *stream); /* NULL is allowed; returns NULL */

enum tls_step {
    TLS_STEP_DONE,
    TLS_STEP_WAIT,   /* for the socket: to write when tls_stream_wants_write(), else to read */
    TLS_STEP_LEFT,   /* the client has closed before it said anything wrong */
    TLS_STEP_FAILED, /* tls_stream_fault() tells */
};

/* Goes on with the handshake, until TLS_STEP_DONE. */
enum tls_step tls_stream_handshake(struct tls_stream *stream);

/* Why it failed, for the log: names neither keys nor paths; what came from the client is clean.
 * Borrowed. */
const char *tls_stream_fault(const struct tls_stream *stream);

/* After the handshake: the name of the client's certificate; "" when none was asked for. */
const char *tls_stream_name(const struct tls_stream *stream);

/*
 * As recv(2) and send(2) on the socket: errno is EAGAIN when nothing can be
 * done now. A read gives up to one record, and 0 only when the client said
 * that it has ended; a cut connection is ECONNRESET. After EAGAIN a write is
 * repeated with the same bytes, and maybe more.
 */
ssize_t tls_stream_read(struct tls_stream *stream, void *data, size_t size);
ssize_t tls_stream_write(struct tls_stream *stream, const void *data, size_t size);

/* Bytes of the last record wait in the stream: the socket does not tell of them. */
bool tls_stream_has_rest(const struct tls_stream *stream);

/* The last call waits for room to write, whatever it was. */
bool tls_stream_wants_write(const struct tls_stream *stream);

/* Tells the client that nothing more comes; best effort. */
void tls_stream_end(struct tls_stream *stream);

/* Who a certificate's name is to quotas and owners: "san:NAME"; one that does not fit is cut and
 * told from others by a digest. */
void tls_stream_caller(const char *name, char *caller, size_t size);
