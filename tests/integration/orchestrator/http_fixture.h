/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "common/buf.h"
#include "orchestrator/http/server.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct agt_engine;
struct agt_sandbox;

/* A server on doubles, on a free port of loopback. */
struct http_fixture {
    struct agt_http *http;
    struct agt_engine *engine;
    struct agt_sandbox *sandbox;
    uint16_t port;
    int fds_before;
};

/* `options` may be NULL; engine, sandbox and address are filled in. */
void http_fixture_start(struct http_fixture *fixture, const struct agt_http_options *options);

/* Stops within `grace_ms`, and checks that nothing is left: runs, watches, executions, fds. Returns
 * what agt_http_stop() returned. */
bool http_fixture_stop(struct http_fixture *fixture, int grace_ms);

/* ---- a client that does what the test says, byte for byte ---- */

int client_connect(const struct http_fixture *fixture);
void client_send(int fd, const void *data, size_t size);
void client_send_str(int fd, const char *text);

/* Reads into `buf` until it holds `needle`, fails at the deadline or at the end of the stream. */
void client_read_until(int fd, struct cr_buf *buf, const char *needle);

/* Reads until the server closes. False when it did not within `timeout_ms`. */
bool client_read_to_end(int fd, struct cr_buf *buf, int timeout_ms);

/* One request on a connection of its own; the whole answer in `buf`. Returns its status, 0 when
 * there was none. */
int client_request(const struct http_fixture *fixture, const char *request, struct cr_buf *buf);

/* POST of a JSON body. */
int client_post(const struct http_fixture *fixture, const char *path, const char *body,
                const char *more_headers, struct cr_buf *buf);
int client_get(const struct http_fixture *fixture, const char *path, struct cr_buf *buf);

/* Behind the header. */
const char *client_body(const struct cr_buf *answer);

/* Polls `is_true` with a deadline of 5 s. */
bool eventually(bool (*is_true)(void *user), void *user);
