/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/http/json_out.h"

#include "common/buf.h"
#include "common/utf8.h"
#include "rpc/json.h"

#include <errno.h>
#include <string.h>

static void note(struct agt_json *json, int result)
{
    if (result < 0 && !json->error)
        json->error = result;
}

static void add_bytes(struct agt_json *json, const void *data, size_t size)
{
    if (!json->error)
        note(json, cr_buf_add(json->buf, data, size));
}

static void add_str(struct agt_json *json, const char *text)
{
    add_bytes(json, text, strlen(text));
}

static void add_unicode_escape(struct agt_json *json, unsigned code)
{
    if (!json->error)
        note(json, cr_buf_printf(json->buf, "\\u%04x", code));
}

static bool is_line_separator(const unsigned char *at, size_t left)
{
    return left >= 3 && at[0] == 0xe2 && at[1] == 0x80 && (at[2] == 0xa8 || at[2] == 0xa9);
}

static void add_escaped(struct agt_json *json, const unsigned char *text, size_t size)
{
    size_t done = 0;

    for (size_t i = 0; i < size; i++) {
        const char *escape = rpc_json_short_escape((char)text[i]);
        bool is_separator = is_line_separator(text + i, size - i);

        if (!escape && text[i] >= 0x20 && text[i] != 0x7f && !is_separator)
            continue;
        add_bytes(json, text + done, i - done);
        if (escape)
            add_str(json, escape);
        else if (is_separator)
            add_unicode_escape(json, text[i + 2] == 0xa8 ? 0x2028 : 0x2029);
        else
            add_unicode_escape(json, text[i]);
        i += is_separator ? 2 : 0;
        done = i + 1;
    }
    add_bytes(json, text + done, size - done);
}

static void add_string(struct agt_json *json, const void *text, size_t size)
{
    CR_AUTO_BUF struct cr_buf lossy;

    cr_buf_init(&lossy, json->buf->cap);
    add_str(json, "\"");
    if (cr_utf8_is_valid(text, size)) {
        add_escaped(json, text, size);
    } else {
        note(json, cr_utf8_add_lossy(&lossy, text, size));
        add_escaped(json, lossy.data ? lossy.data : (const uint8_t *)"", lossy.size);
    }
    add_str(json, "\"");
}

/* Comma and name, as the place asks for. */
static void begin_value(struct agt_json *json, const char *key)
{
    if (json->needs_comma)
        add_str(json, ",");
    if (key) {
        add_string(json, key, strlen(key));
        add_str(json, ":");
    }
    json->needs_comma = true;
}

void agt_json_begin(struct agt_json *json, struct cr_buf *buf)
{
    *json = (struct agt_json){.buf = buf};
}

int agt_json_end(const struct agt_json *json)
{
    return json->error;
}

void agt_json_open(struct agt_json *json, const char *key, char bracket)
{
    begin_value(json, key);
    add_bytes(json, &bracket, 1);
    json->needs_comma = false;
}

void agt_json_close(struct agt_json *json, char bracket)
{
    add_bytes(json, &bracket, 1);
    json->needs_comma = true;
}

void agt_json_str(struct agt_json *json, const char *key, const char *text)
{
    agt_json_text(json, key, text ? text : "", text ? strlen(text) : 0);
}

void agt_json_text(struct agt_json *json, const char *key, const void *text, size_t size)
{
    begin_value(json, key);
    add_string(json, size > 0 ? text : "", size);
}

void agt_json_base64(struct agt_json *json, const char *key, const void *data, size_t size)
{
    static const char alphabet[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const uint8_t *bytes = data;

    begin_value(json, key);
    add_str(json, "\"");
    for (size_t i = 0; i < size; i += 3) {
        uint32_t group = (uint32_t)bytes[i] << 16;
        char quad[4] = {'=', '=', '=', '='};

        if (i + 1 < size)
            group |= (uint32_t)bytes[i + 1] << 8;
        if (i + 2 < size)
            group |= bytes[i + 2];
        quad[0] = alphabet[group >> 18];
        quad[1] = alphabet[group >> 12 & 63];
        if (i + 1 < size)
            quad[2] = alphabet[group >> 6 & 63];
        if (i + 2 < size)
            quad[3] = alphabet[group & 63];
        add_bytes(json, quad, sizeof(quad));
    }
    add_str(json, "\"");
}

void agt_json_int(struct agt_json *json, const char *key, int64_t number)
{
    begin_value(json, key);
    if (!json->error)
        note(json, cr_buf_printf(json->buf, "%lld", (long long)number));
}

void agt_json_seconds(struct agt_json *json, const char *key, double seconds)
{
    begin_value(json, key);
    if (!json->error)
        note(json, cr_buf_printf(json->buf, "%.6f", seconds));
}

void agt_json_bool(struct agt_json *json, const char *key, bool is_true)
{
    begin_value(json, key);
    add_str(json, is_true ? "true" : "false");
}

void agt_json_null(struct agt_json *json, const char *key)
{
    begin_value(json, key);
    add_str(json, "null");
}

void agt_json_raw(struct agt_json *json, const char *key, const char *text)
{
    begin_value(json, key);
    add_str(json, text);
}

void agt_json_message(struct agt_json *json, const char *key, const ProtobufCMessage *message,
                      bool with_defaults)
{
    if (!message) {
        agt_json_null(json, key);
        return;
    }
    begin_value(json, key);
    if (!json->error)
        note(json, agt_json_add_message(json->buf, message, with_defaults));
}

int agt_json_add_message(struct cr_buf *buf, const ProtobufCMessage *message, bool with_defaults)
{
    const struct rpc_json_style style = {
        .use_snake_case = true,
        .with_defaults = with_defaults,
        .int64_as_number = true,
        .strip_enum_prefix = true,
    };

    return rpc_json_write(message, &style, buf);
}
