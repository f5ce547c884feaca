/* SPDX-License-Identifier: Apache-2.0 */
#include "common/utf8.h"
#include "rpc/codec.h"
#include "rpc/status.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* protobuf-c recurses once per level without a limit: 10,000 levels are a crash. */
#define MAX_DEPTH 32U

/* Encoded sizes (protobuf.dev/programming-guides/encoding). protobuf-c reads no more of a tag or
 * of a length than these. */
#define TAG_BYTES_MAX 5U
#define LENGTH_BYTES_MAX 5U
#define VARINT_BYTES_MAX 10U

/* Fields of one type that are looked after; ours have fewer. */
#define FIELDS_MAX 256U

enum wire_type {
    WIRE_VARINT = 0,
    WIRE_FIXED64 = 1,
    WIRE_LENGTH = 2,
    WIRE_GROUP_START = 3,
    WIRE_GROUP_END = 4,
    WIRE_FIXED32 = 5,
};

/* A message that is being walked. */
struct level {
    const struct level *parent; /* the message around it; NULL at the top */
    const ProtobufCMessageDescriptor *descriptor;
    const uint8_t *start;
    const uint8_t *at; /* next byte to read */
    const uint8_t *end;
    const uint8_t *tag_at;                 /* start of the current field */
    const ProtobufCFieldDescriptor *field; /* current field; NULL: none, or unknown */
    unsigned depth;
    uint64_t seen[FIELDS_MAX / 64]; /* messages that are no list: index into descriptor->fields */
};

static bool read_varint(struct level *level, size_t max_bytes, uint64_t *ret_value)
{
    uint64_t value = 0;

    for (size_t i = 0; i < max_bytes && level->at < level->end; i++) {
        uint8_t byte = *level->at++;

        value |= (uint64_t)(byte & 0x7F) << (7 * i);
        if (!(byte & 0x80)) {
            *ret_value = value;
            return true;
        }
    }
    return false;
}

static bool read_tag(struct level *level, uint32_t *ret_id, enum wire_type *ret_type)
{
    uint64_t tag;

    if (!read_varint(level, TAG_BYTES_MAX, &tag) || tag >> 3 == 0 || tag > UINT32_MAX)
        return false;
    *ret_id = (uint32_t)(tag >> 3);
    *ret_type = (enum wire_type)(tag & 7);
    return true;
}

/* Steps over a value of a field that needs no look inside. */
static bool skip_value(struct level *level, enum wire_type type)
{
    uint64_t value;
    size_t left;

    switch (type) {
    case WIRE_VARINT:
        return read_varint(level, VARINT_BYTES_MAX, &value);
    case WIRE_FIXED64:
        value = 8;
        break;
    case WIRE_FIXED32:
        value = 4;
        break;
    case WIRE_LENGTH:
        if (!read_varint(level, LENGTH_BYTES_MAX, &value))
            return false;
        break;
    default:
        return false;
    }
    left = (size_t)(level->end - level->at);
    if (value > left)
        return false;
    level->at += value;
    return true;
}

/* Which occurrence of its field stands at level->tag_at. Counted only for an error, so that a good
 * message pays nothing for it. */
static size_t occurrence(const struct level *level)
{
    struct level again = *level;
    size_t count = 0;
    enum wire_type type;
    uint32_t id;

    again.at = level->start;
    while (again.at < level->tag_at && read_tag(&again, &id, &type)) {
        if (id == level->field->id)
            count++;
        if (!skip_value(&again, type))
            break;
    }
    return count;
}

static bool has_index(const ProtobufCFieldDescriptor *field)
{
    return field->label == PROTOBUF_C_LABEL_REPEATED &&
           (field->type == PROTOBUF_C_TYPE_STRING || field->type == PROTOBUF_C_TYPE_BYTES ||
            field->type == PROTOBUF_C_TYPE_MESSAGE);
}

/* "files[2].path"; empty for the message as a whole. */
static void write_path(const struct level *level, char *path, size_t room)
{
    const struct level *chain[MAX_DEPTH + 1];
    size_t count = 0;
    size_t used = 0;

    for (; level; level = level->parent)
        chain[count++] = level;
    path[0] = '\0';
    while (count > 0 && used < room) {
        const struct level *part = chain[--count];
        int written;

        if (!part->field)
            break;
        written = snprintf(path + used, room - used, "%s%s", used ? "." : "", part->field->name);
        used += written > 0 ? (size_t)written : 0;
        if (used >= room || !has_index(part->field))
            continue;
        written = snprintf(path + used, room - used, "[%zu]", occurrence(part));
        used += written > 0 ? (size_t)written : 0;
    }
}

static int fail(const struct level *level, struct rpc_status *ret_status, const char *description)
{
    char path[sizeof(ret_status->violations[0].field)];

    write_path(level, path, sizeof(path));
    *ret_status = (struct rpc_status)RPC_STATUS_INIT;
    if (path[0])
        rpc_status_add_violation(ret_status, path, "%s", description);
    else
        rpc_status_set(ret_status, RPC_INVALID_ARGUMENT, "the message cannot be read: %s",
                       description);
    return -EINVAL;
}

/* The wire type of one value of a field. */
static enum wire_type wire_type_of(ProtobufCType type)
{
    switch (type) {
    case PROTOBUF_C_TYPE_FIXED64:
    case PROTOBUF_C_TYPE_SFIXED64:
    case PROTOBUF_C_TYPE_DOUBLE:
        return WIRE_FIXED64;
    case PROTOBUF_C_TYPE_FIXED32:
    case PROTOBUF_C_TYPE_SFIXED32:
    case PROTOBUF_C_TYPE_FLOAT:
        return WIRE_FIXED32;
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_BYTES:
    case PROTOBUF_C_TYPE_MESSAGE:
        return WIRE_LENGTH;
    default:
        return WIRE_VARINT;
    }
}

static int check_string(const struct level *level, const uint8_t *data, size_t size,
                        struct rpc_status *ret_status)
{
    if (memchr(data, 0, size))
        return fail(level, ret_status, "has a NUL character; text must not contain one");
    if (!cr_utf8_is_valid(data, size))
        return fail(
            level, ret_status,
            "is not valid UTF-8; text must be, other bytes belong in a field of type bytes");
    return 0;
}

/* Several numbers in one length-delimited value. */
static int check_packed(const struct level *level, const uint8_t *data, size_t size,
                        struct rpc_status *ret_status)
{
    enum wire_type type = wire_type_of(level->field->type);
    struct level packed = {.start = data, .at = data, .end = data + size};

    while (packed.at < packed.end)
        if (!skip_value(&packed, type))
            return fail(level, ret_status, "its list of numbers is cut off or malformed");
    return 0;
}

/*
 * protobuf-c merges a message that comes twice, but fails when it has an unset
 * oneof (1.4.1, merge_messages), and copies lists anew each time. No encoder
 * writes that, so it is refused.
 */
static bool is_repetition(struct level *level)
{
    size_t index = (size_t)(level->field - level->descriptor->fields);
    uint64_t bit = UINT64_C(1) << (index % 64);
    bool is_seen;

    if (level->field->label == PROTOBUF_C_LABEL_REPEATED || index >= FIELDS_MAX)
        return false;
    is_seen = level->seen[index / 64] & bit;
    level->seen[index / 64] |= bit;
    return is_seen;
}

static int check_message(struct level *level, struct rpc_status *ret_status);

/* A length-delimited value of a known field; level->at stands behind it on success. */
static int check_length_value(struct level *level, struct rpc_status *ret_status)
{
    const ProtobufCFieldDescriptor *field = level->field;
    const uint8_t *data;
    uint64_t size;
    struct level inner;

    if (!read_varint(level, LENGTH_BYTES_MAX, &size) || size > (size_t)(level->end - level->at))
        return fail(level, ret_status, "is cut off: its length passes the end of the message");
    data = level->at;
    level->at += size;
    switch (field->type) {
    case PROTOBUF_C_TYPE_STRING:
        return check_string(level, data, size, ret_status);
    case PROTOBUF_C_TYPE_BYTES:
        return 0;
    case PROTOBUF_C_TYPE_MESSAGE:
        inner = (struct level){.parent = level,
                               .descriptor = field->descriptor,
                               .start = data,
                               .at = data,
                               .end = data + size,
                               .depth = level->depth + 1};
        if (inner.depth > MAX_DEPTH)
            return fail(level, ret_status, "is nested too deep; at most 32 levels are allowed");
        if (is_repetition(level))
            return fail(level, ret_status, "is given twice");
        return check_message(&inner, ret_status);
    default:
        return check_packed(level, data, size, ret_status);
    }
}

static int check_field(struct level *level, enum wire_type type, struct rpc_status *ret_status)
{
    const ProtobufCFieldDescriptor *field = level->field;

    if (type == WIRE_GROUP_START || type == WIRE_GROUP_END)
        return fail(level, ret_status, "uses groups, which are not supported");
    if (type > WIRE_FIXED32)
        return fail(level, ret_status, "has an unknown wire type");
    if (!field) {
        if (!skip_value(level, type))
            return fail(level, ret_status, "an unknown field is cut off or malformed");
        return 0;
    }
    if (type == WIRE_LENGTH &&
        (wire_type_of(field->type) == WIRE_LENGTH || field->label == PROTOBUF_C_LABEL_REPEATED))
        return check_length_value(level, ret_status);
    if (type != wire_type_of(field->type))
        return fail(level, ret_status, "has the wrong wire type; was it made with another proto?");
    if (!skip_value(level, type))
        return fail(level, ret_status, "is cut off or malformed");
    return 0;
}

/* Recursion is bounded by MAX_DEPTH. */
static int check_message(struct level *level, struct rpc_status *ret_status)
{
    while (level->at < level->end) {
        enum wire_type type;
        uint32_t id;
        int r;

        level->field = NULL;
        level->tag_at = level->at;
        if (!read_tag(level, &id, &type))
            return fail(level, ret_status, "a field tag is cut off or malformed");
        level->field = protobuf_c_message_descriptor_get_field(level->descriptor, id);
        r = check_field(level, type, ret_status);
        if (r < 0)
            return r;
    }
    return 0;
}

int rpc_wire_check(const ProtobufCMessageDescriptor *descriptor, const void *data, size_t size,
                   struct rpc_status *ret_status)
{
    struct level top = {.descriptor = descriptor};

    if (size == 0)
        return 0;
    top.start = data;
    top.at = top.start;
    top.end = top.start + size;
    return check_message(&top, ret_status);
}
