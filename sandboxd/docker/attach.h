/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

struct cr_err;
struct sbx_engine_address;

/*
 * A hijacked connection: the call that attaches to a container before it is
 * started turns its HTTP connection into the container's streams. It has to
 * be given away, so it is a socket of its own and none of libcurl's.
 */

/* Begins to connect. Returns the socket (non-blocking, CLOEXEC), which is writable when that is
 * over, or -errno. */
int sbx_attach_begin(const struct sbx_engine_address *address, struct cr_err *err);

/* Sends the request of such a socket. Returns 0 or -errno. */
int sbx_attach_ask(int socket_fd, const char *version, const char *id, struct cr_err *err);

/*
 * Takes the answer's head off the socket, and not one byte more. Returns 0
 * when the connection is hijacked, -EAGAIN while the head is not complete,
 * or another -errno with a text.
 */
int sbx_attach_end(int socket_fd, struct cr_err *err);
