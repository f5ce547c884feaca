/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

struct cr_err;

/*
 * A hijacked connection: the call that attaches to a container before it is
 * started turns its HTTP connection into the container's streams. It has to
 * be given away, so it is a socket of its own and none of libcurl's.
 */

/* Connects and sends the request. Returns the socket (non-blocking, CLOEXEC) or -errno. */
int sbx_attach_begin(const char *socket_path, const char *version, const char *id,
                     struct cr_err *err);

/*
 * Takes the answer's head off the socket, and not one byte more. Returns 0
 * when the connection is hijacked, -EAGAIN while the head is not complete,
 * or another -errno with a text.
 */
int sbx_attach_end(int socket_fd, struct cr_err *err);
