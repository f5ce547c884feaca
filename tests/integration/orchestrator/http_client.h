/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "common/buf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cjson/cJSON.h>

/* An HTTP client on loopback that sends what the test says, byte for byte. Failures fail the test.
 */

int client_connect(uint16_t port);
void client_connect_fd(int fd, uint16_t port); /* a socket made before */
void client_send(int fd, const void *data, size_t size);
void client_send_str(int fd, const char *text);

/* Reads into `buf` until it holds `needle`, fails at the deadline or at the end of the stream. */
void client_read_until(int fd, struct cr_buf *buf, const char *needle);

/* Reads until the server closes. False when it did not within `timeout_ms`. */
bool client_read_to_end(int fd, struct cr_buf *buf, int timeout_ms);

/* One request on a connection of its own; the whole answer in `buf`. Returns its status, 0 when
 * there was none. */
int client_request(uint16_t port, const char *request, struct cr_buf *buf);

/* POST of a JSON body. */
int client_post(uint16_t port, const char *path, const char *body, const char *more_headers,
                struct cr_buf *buf);
int client_get(uint16_t port, const char *path, struct cr_buf *buf);

/* Behind the header. */
const char *client_body(const struct cr_buf *answer);

/* What is there, which has to be JSON. To cJSON_Delete(). */
cJSON *client_json(const struct cr_buf *answer);

/* NULL when the member is no text, or not there. Borrowed. */
const char *client_text(const cJSON *root, const char *name);

/* Polls `is_true` with a deadline of a minute. */
bool eventually(bool (*is_true)(void *user), void *user);
