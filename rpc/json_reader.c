/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/json_reader.h"

#include "common/utf8.h"
#include "rpc/json_value.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* "[{},{},…]" takes three bytes of text and hundreds of memory each: 4 MiB could claim a gigabyte.
 */
#define MEMORY_MAX ((size_t)32 << 20)

/* ---- errors ---- */

int rpc_json_fail(struct rpc_json_reader *reader, const char *format, ...)
{
    char text[sizeof(reader->status->violations[0].description)];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    *reader->status = (struct rpc_status)RPC_STATUS_INIT;
    if (reader->path_size > 0)
        rpc_status_add_violation(reader->status, reader->path, "%s", text);
    else
        rpc_status_set(reader->status, RPC_INVALID_ARGUMENT, "%s", text);
    return -EINVAL;
}

/* The text is not JSON at all here. */
int rpc_json_fail_syntax(struct rpc_json_reader *reader, const char *expected)
{
    bool is_bad = reader->lex.token == RPC_JSON_BAD;
    size_t line;
    size_t column;

    rpc_json_lex_place(&reader->lex, is_bad ? reader->lex.fault_at : reader->lex.token_at, &line,
                       &column);
    if (is_bad)
        return rpc_json_fail(reader, "not valid JSON at line %zu, column %zu: %s", line, column,
                             reader->lex.fault);
    return rpc_json_fail(reader, "not valid JSON at line %zu, column %zu: %s expected%s", line,
                         column, expected,
                         reader->lex.token == RPC_JSON_END ? ", but the text ends" : "");
}

/* The value is JSON, but not of the right kind. */
int rpc_json_fail_kind(struct rpc_json_reader *reader, const char *allowed)
{
    switch (reader->lex.token) {
    case RPC_JSON_BAD:
    case RPC_JSON_END:
    case RPC_JSON_COLON:
    case RPC_JSON_COMMA:
    case RPC_JSON_OBJECT_CLOSE:
    case RPC_JSON_ARRAY_CLOSE:
        return rpc_json_fail_syntax(reader, "a value");
    default:
        return rpc_json_fail(reader, "%s%s", reader->path_size ? "" : "the text ", allowed);
    }
}

void *rpc_json_allocate(struct rpc_json_reader *reader, size_t size)
{
    bool is_within = size <= MEMORY_MAX - reader->allocated;
    void *memory = is_within ? malloc(size ? size : 1) : NULL;

    if (memory) {
        reader->allocated += size;
        return memory;
    }
    *reader->status = (struct rpc_status)RPC_STATUS_INIT;
    if (is_within)
        rpc_status_set(reader->status, RPC_RESOURCE_EXHAUSTED, "out of memory");
    else
        rpc_status_set(reader->status, RPC_RESOURCE_EXHAUSTED,
                       "the text needs more than %zu bytes of memory; send fewer or smaller items",
                       MEMORY_MAX);
    return NULL;
}

/* ---- the path, for errors ---- */

void rpc_json_path_cut(struct rpc_json_reader *reader, size_t size)
{
    reader->path_size = size;
    reader->path[size] = '\0';
}

/* Appends and returns the size before, for rpc_json_path_cut(). A path that is too long ends where
 * it fits.
 */
size_t rpc_json_path_add(struct rpc_json_reader *reader, const char *format, ...)
{
    size_t before = reader->path_size;
    size_t room = sizeof(reader->path) - before;
    va_list args;
    int size;

    va_start(args, format);
    size = vsnprintf(reader->path + before, room, format, args);
    va_end(args);
    if (size > 0)
        reader->path_size += (size_t)size < room ? (size_t)size : room - 1;
    rpc_json_path_cut(reader, cr_utf8_complete_prefix(reader->path, reader->path_size));
    return before;
}

/* What somebody sent as a name, made fit to be shown. */
void rpc_json_show_name(const struct rpc_json_lex *lex, char shown[RPC_JSON_SHOWN_MAX + 1])
{
    size_t size = lex->value_size < RPC_JSON_SHOWN_MAX ? lex->value_size : RPC_JSON_SHOWN_MAX;

    size = cr_utf8_complete_prefix(lex->value, size);
    memcpy(shown, lex->value, size);
    shown[size] = '\0';
}

/* ---- scalars ---- */

static bool is_text_or_number(const struct rpc_json_reader *reader)
{
    return reader->lex.token == RPC_JSON_STRING || reader->lex.token == RPC_JSON_NUMBER;
}

static bool parse_fraction(const struct rpc_json_reader *reader, int64_t high, int64_t *ret_value)
{
    double value;

    if (!rpc_json_parse_double(reader->lex.value, reader->lex.value_size, &value) ||
        !(value >= 0 && value < 0x1p63) || ceil(value) > (double)high)
        return false;
    *ret_value = (int64_t)ceil(value);
    return true;
}

static int read_int64(struct rpc_json_reader *reader, int64_t low, int64_t high, int64_t *ret_value)
{
    if (is_text_or_number(reader) &&
        (rpc_json_parse_int64(reader->lex.value, reader->lex.value_size, low, high, ret_value) ||
         (reader->leniency.rounds_up && parse_fraction(reader, high, ret_value))))
        return 0;
    if (!is_text_or_number(reader))
        return rpc_json_fail_kind(reader, "must be a whole number");
    return rpc_json_fail(reader, "not a whole number from %" PRId64 " to %" PRId64, low, high);
}

static int read_uint64(struct rpc_json_reader *reader, uint64_t high, uint64_t *ret_value)
{
    if (is_text_or_number(reader) &&
        rpc_json_parse_uint64(reader->lex.value, reader->lex.value_size, high, ret_value))
        return 0;
    if (!is_text_or_number(reader))
        return rpc_json_fail_kind(reader, "must be a whole number");
    return rpc_json_fail(reader, "not a whole number from 0 to %" PRIu64, high);
}

static int read_int32(struct rpc_json_reader *reader, int32_t *ret_value)
{
    int64_t value = 0;
    int r = read_int64(reader, INT32_MIN, INT32_MAX, &value);

    if (r == 0)
        *ret_value = (int32_t)value;
    return r;
}

static int read_uint32(struct rpc_json_reader *reader, uint32_t *ret_value)
{
    uint64_t value = 0;
    int r = read_uint64(reader, UINT32_MAX, &value);

    if (r == 0)
        *ret_value = (uint32_t)value;
    return r;
}

static int read_double(struct rpc_json_reader *reader, double *ret_value)
{
    if (is_text_or_number(reader) &&
        rpc_json_parse_double(reader->lex.value, reader->lex.value_size, ret_value))
        return 0;
    return rpc_json_fail_kind(reader,
                              "must be a number that fits a double, or \"NaN\", \"Infinity\", "
                              "\"-Infinity\"");
}

static int read_float(struct rpc_json_reader *reader, float *ret_value)
{
    double value = 0;
    int r = read_double(reader, &value);

    if (r < 0)
        return r;
    /* From half a step above FLT_MAX on, rounding gives infinity. */
    if (isfinite(value) && fabs(value) >= 0x1.ffffffp127)
        return rpc_json_fail(reader, "must be a number that fits a float");
    *ret_value = (float)value;
    return 0;
}

static int read_bool(struct rpc_json_reader *reader, protobuf_c_boolean *ret_value)
{
    if (reader->lex.token != RPC_JSON_TRUE && reader->lex.token != RPC_JSON_FALSE)
        return rpc_json_fail_kind(reader, "must be true or false");
    *ret_value = reader->lex.token == RPC_JSON_TRUE;
    return 0;
}

static int read_enum(struct rpc_json_reader *reader, const ProtobufCEnumDescriptor *descriptor,
                     int *ret_value)
{
    char allowed[160];
    char shown[RPC_JSON_SHOWN_MAX + 1];

    if (is_text_or_number(reader) &&
        rpc_json_parse_enum(descriptor, reader->lex.value, reader->lex.value_size, ret_value))
        return 0;
    rpc_json_list_enum(descriptor, allowed, sizeof(allowed));
    if (!is_text_or_number(reader))
        return rpc_json_fail_kind(reader, "must be the name of a value, in quotes");
    rpc_json_show_name(&reader->lex, shown);
    return rpc_json_fail(reader, "'%s' is unknown; allowed: %s", shown, allowed);
}

static int read_string(struct rpc_json_reader *reader, char **ret_text)
{
    char *text;

    if (reader->lex.token != RPC_JSON_STRING)
        return rpc_json_fail_kind(reader, "must be text in quotes");
    text = rpc_json_allocate(reader, reader->lex.value_size + 1);
    if (!text)
        return -ENOMEM;
    (void)rpc_json_lex_unescape(&reader->lex, text);
    *ret_text = text;
    return 0;
}

/* A scalar of another kind as text. */
static int read_as_text(struct rpc_json_reader *reader, char **ret_text)
{
    char text[RPC_JSON_NUMBER_MAX] = "";

    if (reader->lex.token == RPC_JSON_TRUE || reader->lex.token == RPC_JSON_FALSE)
        (void)snprintf(text, sizeof(text), "%s",
                       reader->lex.token == RPC_JSON_TRUE ? "true" : "false");
    else if (reader->lex.token != RPC_JSON_NUMBER)
        return read_string(reader, ret_text);
    else if (!rpc_json_number_text(reader->lex.value, reader->lex.value_size, text))
        return rpc_json_fail(reader, "must be text in quotes, or a number that fits a double");
    *ret_text = rpc_json_allocate(reader, strlen(text) + 1);
    if (!*ret_text)
        return -ENOMEM;
    memcpy(*ret_text, text, strlen(text) + 1);
    return 0;
}

static int read_bytes(struct rpc_json_reader *reader, ProtobufCBinaryData *ret_bytes)
{
    char *text = NULL;
    uint8_t *data;
    size_t size;
    int r;

    if (reader->lex.token != RPC_JSON_STRING)
        return rpc_json_fail_kind(reader, "must be bytes as base64 text in quotes");
    /* Some writers escape the '/' of base64. */
    r = read_string(reader, &text);
    if (r < 0)
        return r;
    size = strlen(text);
    data = rpc_json_allocate(reader, size / 4 * 3 + 3);
    if (!data)
        r = -ENOMEM;
    else if (!rpc_json_parse_base64(text, size, data, &size))
        r = rpc_json_fail(reader, "must be bytes as base64 text");
    free(text);
    if (r < 0) {
        free(data);
        return r;
    }
    *ret_bytes = (ProtobufCBinaryData){.len = size, .data = data};
    return 0;
}

int rpc_json_read_scalar(struct rpc_json_reader *reader, const ProtobufCFieldDescriptor *field,
                         void *slot)
{
    switch (field->type) {
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_SINT32:
    case PROTOBUF_C_TYPE_SFIXED32:
        return read_int32(reader, slot);
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_FIXED32:
        return read_uint32(reader, slot);
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64:
        return read_int64(reader, INT64_MIN, INT64_MAX, slot);
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
        return read_uint64(reader, UINT64_MAX, slot);
    case PROTOBUF_C_TYPE_FLOAT:
        return read_float(reader, slot);
    case PROTOBUF_C_TYPE_DOUBLE:
        return read_double(reader, slot);
    case PROTOBUF_C_TYPE_BOOL:
        return read_bool(reader, slot);
    case PROTOBUF_C_TYPE_ENUM:
        return read_enum(reader, field->descriptor, slot);
    case PROTOBUF_C_TYPE_STRING:
        return reader->leniency.takes_scalars && field->label == PROTOBUF_C_LABEL_REPEATED
                   ? read_as_text(reader, slot)
                   : read_string(reader, slot);
    case PROTOBUF_C_TYPE_BYTES:
        return read_bytes(reader, slot);
    default:
        return rpc_json_fail(reader, "has a type that JSON cannot carry");
    }
}
