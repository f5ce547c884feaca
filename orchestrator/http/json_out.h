/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <protobuf-c/protobuf-c.h>

struct cr_buf;

/*
 * Writes one line of JSON into a buffer, value by value. Errors stick: after
 * the first nothing more is written, and agt_json_end() tells. The caller
 * opens and closes containers in balance.
 *
 * `key` is the member's name within an object and NULL within an array or at
 * the top. Text is untrusted: it is escaped, ill-formed UTF-8 is replaced by
 * U+FFFD, and U+2028/U+2029 are escaped because JavaScript once ended lines
 * there.
 */
struct agt_json {
    struct cr_buf *buf; /* borrowed */
    int error;          /* 0 or the first negative errno */
    bool needs_comma;
};

void agt_json_begin(struct agt_json *json, struct cr_buf *buf);

/* Returns 0, or as cr_buf_add(). */
int agt_json_end(const struct agt_json *json);

void agt_json_open(struct agt_json *json, const char *key, char bracket); /* '{' or '[' */
void agt_json_close(struct agt_json *json, char bracket);                 /* '}' or ']' */

void agt_json_str(struct agt_json *json, const char *key, const char *text);
void agt_json_text(struct agt_json *json, const char *key, const void *text, size_t size);
void agt_json_base64(struct agt_json *json, const char *key, const void *data, size_t size);
void agt_json_int(struct agt_json *json, const char *key, int64_t number);
void agt_json_seconds(struct agt_json *json, const char *key, double seconds);
void agt_json_bool(struct agt_json *json, const char *key, bool is_true);
void agt_json_null(struct agt_json *json, const char *key);

/* `text` is JSON already, and trusted. */
void agt_json_raw(struct agt_json *json, const char *key, const char *text);

/* A message by its descriptor: snake_case, short enum names, numbers as numbers. NULL writes null.
 */
void agt_json_message(struct agt_json *json, const char *key, const ProtobufCMessage *message,
                      bool with_defaults);

/* The same, without a writer around it. */
int agt_json_add_message(struct cr_buf *buf, const ProtobufCMessage *message, bool with_defaults);
