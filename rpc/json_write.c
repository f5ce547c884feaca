/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/buf.h"
#include "common/utf8.h"
#include "rpc/json.h"
#include "rpc/json_field.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Integers up to here are exact in a double, which is what JavaScript has. */
#define EXACT_MAX (INT64_C(1) << 53)

/* The first failure sticks, so that the writers need not check each step. */
struct writer {
    const struct rpc_json_style *style;
    struct cr_buf *buf;
    int failure;
};

static void put(struct writer *writer, const char *data, size_t size)
{
    if (writer->failure == 0)
        writer->failure = cr_buf_add(writer->buf, data, size);
}

static void put_char(struct writer *writer, char character)
{
    put(writer, &character, 1);
}

static void put_text(struct writer *writer, const char *text)
{
    put(writer, text, strlen(text));
}

static void __attribute__((format(printf, 2, 3)))
put_format(struct writer *writer, const char *format, ...)
{
    char text[64];
    va_list args;
    int size;

    va_start(args, format);
    size = vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    if (size > 0 && (size_t)size < sizeof(text))
        put(writer, text, (size_t)size);
}

/* ---- strings and bytes ---- */

const char *rpc_json_short_escape(char character)
{
    switch (character) {
    case '"':
        return "\\\"";
    case '\\':
        return "\\\\";
    case '\b':
        return "\\b";
    case '\f':
        return "\\f";
    case '\n':
        return "\\n";
    case '\r':
        return "\\r";
    case '\t':
        return "\\t";
    default:
        return NULL;
    }
}

static void put_escaped(struct writer *writer, const char *text, size_t size)
{
    size_t clean = 0; /* start of the run that needs no escape */

    put_char(writer, '"');
    for (size_t i = 0; i < size; i++) {
        const char *escape = rpc_json_short_escape(text[i]);

        if (!escape && (unsigned char)text[i] >= ' ' && text[i] != 0x7F)
            continue;
        put(writer, text + clean, i - clean);
        clean = i + 1;
        if (escape)
            put_text(writer, escape);
        else
            put_format(writer, "\\u%04x", (unsigned)(unsigned char)text[i]);
    }
    put(writer, text + clean, size - clean);
    put_char(writer, '"');
}

/* A message that did not come over the wire may hold anything; JSON must be UTF-8. */
static void put_string(struct writer *writer, const char *text)
{
    CR_AUTO_BUF struct cr_buf repaired = {0};
    size_t size;

    if (!text)
        text = "";
    size = strlen(text);
    if (cr_utf8_is_valid(text, size)) {
        put_escaped(writer, text, size);
        return;
    }
    /* Each bad byte becomes three at most. */
    cr_buf_init(&repaired, size * 3);
    if (writer->failure == 0)
        writer->failure = cr_utf8_add_lossy(&repaired, text, size);
    put_escaped(writer, cr_buf_str(&repaired), repaired.size);
}

static void put_base64(struct writer *writer, const ProtobufCBinaryData *bytes)
{
    static const char ALPHABET[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

    put_char(writer, '"');
    for (size_t i = 0; i < bytes->len; i += 3) {
        size_t left = bytes->len - i;
        uint32_t group = (uint32_t)bytes->data[i] << 16;
        char text[4] = {'=', '=', '=', '='};

        if (left > 1)
            group |= (uint32_t)bytes->data[i + 1] << 8;
        if (left > 2)
            group |= bytes->data[i + 2];
        for (size_t k = 0; k < 4 && k <= left; k++)
            text[k] = ALPHABET[group >> (18 - 6 * k) & 0x3F];
        put(writer, text, sizeof(text));
    }
    put_char(writer, '"');
}

/* ---- numbers and names ---- */

static void put_int64(struct writer *writer, int64_t value)
{
    bool is_exact = value >= -EXACT_MAX && value <= EXACT_MAX;
    const char *quote = writer->style->int64_as_number && is_exact ? "" : "\"";

    put_format(writer, "%s%" PRId64 "%s", quote, value, quote);
}

static void put_uint64(struct writer *writer, uint64_t value)
{
    bool is_exact = value <= (uint64_t)EXACT_MAX;
    const char *quote = writer->style->int64_as_number && is_exact ? "" : "\"";

    put_format(writer, "%s%" PRIu64 "%s", quote, value, quote);
}

static bool put_special(struct writer *writer, double value)
{
    if (isnan(value))
        put_text(writer, "\"NaN\"");
    else if (isinf(value))
        put_text(writer, value > 0 ? "\"Infinity\"" : "\"-Infinity\"");
    else
        return false;
    return true;
}

/* The shortest text that reads back as the same value. */
static void put_double(struct writer *writer, double value)
{
    char text[32];

    if (put_special(writer, value))
        return;
    for (int digits = 15; digits <= 17; digits++) {
        (void)snprintf(text, sizeof(text), "%.*g", digits, value);
        if (strtod(text, NULL) == value)
            break;
    }
    put_text(writer, text);
}

static void put_float(struct writer *writer, float value)
{
    char text[32];

    if (put_special(writer, (double)value))
        return;
    for (int digits = 6; digits <= 9; digits++) {
        (void)snprintf(text, sizeof(text), "%.*g", digits, (double)value);
        if (strtof(text, NULL) == value)
            break;
    }
    put_text(writer, text);
}

static void put_enum(struct writer *writer, const ProtobufCEnumDescriptor *descriptor, int value)
{
    const ProtobufCEnumValue *found = protobuf_c_enum_descriptor_get_value(descriptor, value);
    char prefix[RPC_JSON_NAME_MAX];
    const char *name;
    size_t size;

    if (!found) {
        put_format(writer, "%d", value);
        return;
    }
    name = found->name;
    rpc_json_enum_prefix(descriptor, prefix, sizeof(prefix));
    size = strlen(prefix);
    if (writer->style->strip_enum_prefix && strncmp(name, prefix, size) == 0 && name[size])
        name += size;
    put_escaped(writer, name, strlen(name));
}

/* ---- values, fields, messages ---- */

static void put_message(struct writer *writer, const ProtobufCMessage *message);

/* `value` points to one value, as a message struct or a repeated array holds it. */
static void put_value(struct writer *writer, const ProtobufCFieldDescriptor *field,
                      const void *value)
{
    switch (field->type) {
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_SINT32:
    case PROTOBUF_C_TYPE_SFIXED32:
        put_format(writer, "%" PRId32, *(const int32_t *)value);
        break;
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_FIXED32:
        put_format(writer, "%" PRIu32, *(const uint32_t *)value);
        break;
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64:
        put_int64(writer, *(const int64_t *)value);
        break;
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
        put_uint64(writer, *(const uint64_t *)value);
        break;
    case PROTOBUF_C_TYPE_FLOAT:
        put_float(writer, *(const float *)value);
        break;
    case PROTOBUF_C_TYPE_DOUBLE:
        put_double(writer, *(const double *)value);
        break;
    case PROTOBUF_C_TYPE_BOOL:
        put_text(writer, *(const protobuf_c_boolean *)value ? "true" : "false");
        break;
    case PROTOBUF_C_TYPE_ENUM:
        put_enum(writer, field->descriptor, *(const int *)value);
        break;
    case PROTOBUF_C_TYPE_STRING:
        put_string(writer, *(char *const *)value);
        break;
    case PROTOBUF_C_TYPE_BYTES:
        put_base64(writer, value);
        break;
    case PROTOBUF_C_TYPE_MESSAGE:
        put_message(writer, *(const ProtobufCMessage *const *)value);
        break;
    }
}

/* JSON keys are strings: numbers and booleans get quotes, which 64-bit numbers may have already. */
static void put_map_key(struct writer *writer, const ProtobufCFieldDescriptor *field,
                        const void *value)
{
    static const struct rpc_json_style plain = {.int64_as_number = false};
    struct writer key = {.style = &plain, .buf = writer->buf, .failure = writer->failure};
    bool has_quotes = field->type == PROTOBUF_C_TYPE_STRING ||
                      rpc_json_value_size(field->type) == sizeof(uint64_t);

    if (!has_quotes)
        put_char(&key, '"');
    put_value(&key, field, value);
    if (!has_quotes)
        put_char(&key, '"');
    writer->failure = key.failure;
}

static const void *member(const ProtobufCMessage *message, size_t offset)
{
    return (const char *)message + offset;
}

static void put_map(struct writer *writer, const ProtobufCFieldDescriptor *field,
                    ProtobufCMessage *const *entries, size_t count)
{
    const ProtobufCMessageDescriptor *entry = field->descriptor;

    put_char(writer, '{');
    for (size_t i = 0; i < count; i++) {
        if (i > 0)
            put_char(writer, ',');
        put_map_key(writer, &entry->fields[0], member(entries[i], entry->fields[0].offset));
        put_char(writer, ':');
        put_value(writer, &entry->fields[1], member(entries[i], entry->fields[1].offset));
    }
    put_char(writer, '}');
}

static void put_repeated(struct writer *writer, const ProtobufCFieldDescriptor *field,
                         const ProtobufCMessage *message)
{
    size_t count = *(const size_t *)member(message, field->quantifier_offset);
    const char *values = *(const char *const *)member(message, field->offset);

    if (rpc_json_is_map(field)) {
        put_map(writer, field, *(ProtobufCMessage *const *const *)member(message, field->offset),
                count);
        return;
    }
    put_char(writer, '[');
    for (size_t i = 0; i < count; i++) {
        if (i > 0)
            put_char(writer, ',');
        put_value(writer, field, values + i * rpc_json_value_size(field->type));
    }
    put_char(writer, ']');
}

static bool is_default(const ProtobufCFieldDescriptor *field, const void *value)
{
    static const char zeros[sizeof(uint64_t)];

    switch (field->type) {
    case PROTOBUF_C_TYPE_STRING: {
        const char *text = *(char *const *)value;

        return !text || !text[0];
    }
    case PROTOBUF_C_TYPE_BYTES:
        return ((const ProtobufCBinaryData *)value)->len == 0;
    case PROTOBUF_C_TYPE_MESSAGE:
        return !*(ProtobufCMessage *const *)value;
    default:
        return memcmp(value, zeros, rpc_json_value_size(field->type)) == 0;
    }
}

static bool is_written(const struct writer *writer, const ProtobufCFieldDescriptor *field,
                       const ProtobufCMessage *message)
{
    const void *quantifier = member(message, field->quantifier_offset);

    if (field->label == PROTOBUF_C_LABEL_REPEATED)
        return writer->style->with_defaults || *(const size_t *)quantifier > 0;
    if (rpc_json_is_oneof(field))
        return *(const uint32_t *)quantifier == field->id;
    if (!is_default(field, member(message, field->offset)))
        return true;
    return writer->style->with_defaults && field->type != PROTOBUF_C_TYPE_MESSAGE;
}

/* A message type of ours is never recursive, so the types bound the recursion. A missing value of
 * a map is an empty message. */
static void put_message(struct writer *writer, const ProtobufCMessage *message)
{
    const char *comma = "";

    put_char(writer, '{');
    for (unsigned i = 0; message && i < message->descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &message->descriptor->fields[i];
        char name[RPC_JSON_NAME_MAX];

        if (!is_written(writer, field, message))
            continue;
        rpc_json_camel(field->name, name, sizeof(name));
        put_text(writer, comma);
        comma = ",";
        put_char(writer, '"');
        put_text(writer, writer->style->use_snake_case ? field->name : name);
        put_text(writer, "\":");
        if (field->label == PROTOBUF_C_LABEL_REPEATED)
            put_repeated(writer, field, message);
        else
            put_value(writer, field, member(message, field->offset));
    }
    put_char(writer, '}');
}

int rpc_json_write(const ProtobufCMessage *message, const struct rpc_json_style *style,
                   struct cr_buf *buf)
{
    static const struct rpc_json_style plain = {.use_snake_case = false};
    struct writer writer = {.style = style ? style : &plain, .buf = buf};
    size_t size = buf->size;

    put_message(&writer, message);
    if (writer.failure < 0 && buf->data) {
        buf->size = size;
        buf->data[size] = 0;
    }
    return writer.failure;
}
