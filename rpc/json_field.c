/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/json_field.h"

#include <stdint.h>
#include <string.h>

static bool is_upper(char character)
{
    return character >= 'A' && character <= 'Z';
}

static bool is_lower(char character)
{
    return character >= 'a' && character <= 'z';
}

static char to_upper(char character)
{
    if (is_lower(character))
        return (char)(character - 'a' + 'A');
    return character;
}

void rpc_json_camel(const char *name, char *out, size_t room)
{
    bool is_word_start = false;
    size_t used = 0;

    for (; *name && used + 1 < room; name++) {
        if (*name == '_') {
            is_word_start = true;
            continue;
        }
        out[used] = *name;
        if (is_word_start)
            out[used] = to_upper(*name);
        used++;
        is_word_start = false;
    }
    out[used] = '\0';
}

bool rpc_json_is_map(const ProtobufCFieldDescriptor *field)
{
    const ProtobufCMessageDescriptor *entry = field->descriptor;
    size_t size;

    if (field->label != PROTOBUF_C_LABEL_REPEATED || field->type != PROTOBUF_C_TYPE_MESSAGE)
        return false;
    size = strlen(entry->short_name);
    return size > 5 && strcmp(entry->short_name + size - 5, "Entry") == 0 && entry->n_fields == 2 &&
           entry->fields[0].id == 1 && strcmp(entry->fields[0].name, "key") == 0 &&
           entry->fields[1].id == 2 && strcmp(entry->fields[1].name, "value") == 0;
}

bool rpc_json_is_oneof(const ProtobufCFieldDescriptor *field)
{
    return (field->flags & (uint32_t)PROTOBUF_C_FIELD_FLAG_ONEOF) != 0;
}

size_t rpc_json_value_size(ProtobufCType type)
{
    switch (type) {
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64:
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
        return sizeof(uint64_t);
    case PROTOBUF_C_TYPE_DOUBLE:
        return sizeof(double);
    case PROTOBUF_C_TYPE_FLOAT:
        return sizeof(float);
    case PROTOBUF_C_TYPE_BOOL:
        return sizeof(protobuf_c_boolean);
    case PROTOBUF_C_TYPE_STRING:
        return sizeof(char *);
    case PROTOBUF_C_TYPE_BYTES:
        return sizeof(ProtobufCBinaryData);
    case PROTOBUF_C_TYPE_MESSAGE:
        return sizeof(ProtobufCMessage *);
    default:
        return sizeof(int32_t);
    }
}

void rpc_json_enum_prefix(const ProtobufCEnumDescriptor *descriptor, char *out, size_t room)
{
    const char *name = descriptor->short_name;
    size_t used = 0;

    for (size_t i = 0; name[i] && used + 3 < room; i++) {
        if (i > 0 && is_upper(name[i]) && !is_upper(name[i - 1]))
            out[used++] = '_';
        out[used++] = to_upper(name[i]);
    }
    out[used++] = '_';
    out[used] = '\0';
}
