/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/http/schema.h"

#include "common/auto.h"
#include "common/buf.h"
#include "rpc/json_field.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define COMMENT_CAP ((size_t)8 << 10)
#define NAME_SIZE 128

static const void *of(struct agt_schema_type type)
{
    return type.of;
}

/* "agent.v1.RunEvent" for crisol.agent.v1.RunEvent; a shape has a name of its own. */
static const char *component_name(struct agt_schema_type type)
{
    static const char ours[] = "crisol.";
    const char *name;

    if (type.kind == AGT_SCHEMA_SHAPE)
        return ((const struct agt_schema_shape *)of(type))->name;
    if (type.kind == AGT_SCHEMA_ENUM)
        name = ((const ProtobufCEnumDescriptor *)of(type))->name;
    else
        name = ((const ProtobufCMessageDescriptor *)of(type))->name;
    return strncmp(name, ours, sizeof(ours) - 1) == 0 ? name + sizeof(ours) - 1 : name;
}

static void list(struct agt_schemas *schemas, struct agt_schema_type type)
{
    for (size_t i = 0; i < schemas->count; i++) {
        if (schemas->listed[i].of == type.of)
            return;
    }
    if (schemas->count == AGT_SCHEMAS_MAX)
        schemas->json->error = -E2BIG;
    else
        schemas->listed[schemas->count++] = type;
}

static void write_ref(struct agt_schemas *schemas, const char *key, struct agt_schema_type type)
{
    char ref[NAME_SIZE];

    (void)snprintf(ref, sizeof(ref), "#/components/schemas/%s", component_name(type));
    agt_json_open(schemas->json, key, '{');
    agt_json_str(schemas->json, "$ref", ref);
    agt_json_close(schemas->json, '}');
    list(schemas, type);
}

static void write_nullable_ref(struct agt_schemas *schemas, const char *key,
                               struct agt_schema_type type)
{
    agt_json_open(schemas->json, key, '{');
    agt_json_open(schemas->json, "anyOf", '[');
    write_ref(schemas, NULL, type);
    agt_json_open(schemas->json, NULL, '{');
    agt_json_str(schemas->json, "type", "null");
    agt_json_close(schemas->json, '}');
    agt_json_close(schemas->json, ']');
    agt_json_close(schemas->json, '}');
}

/* {"type":…}, left open. */
static void open_typed(struct agt_json *json, const char *key, const char *type, bool is_nullable)
{
    agt_json_open(json, key, '{');
    if (!is_nullable) {
        agt_json_str(json, "type", type);
        return;
    }
    agt_json_open(json, "type", '[');
    agt_json_str(json, NULL, type);
    agt_json_str(json, NULL, "null");
    agt_json_close(json, ']');
}

static void write_location_item(struct agt_json *json)
{
    agt_json_open(json, "items", '{');
    agt_json_open(json, "type", '[');
    agt_json_str(json, NULL, "string");
    agt_json_str(json, NULL, "integer");
    agt_json_close(json, ']');
    agt_json_close(json, '}');
}

static void write_list(struct agt_schemas *schemas, const char *key, struct agt_schema_type item)
{
    agt_json_open(schemas->json, key, '{');
    agt_json_str(schemas->json, "type", "array");
    if (item.kind == AGT_SCHEMA_NONE)
        write_location_item(schemas->json);
    else
        agt_schema_write(schemas, "items", item, false);
    agt_json_close(schemas->json, '}');
}

static void write_scalar(struct agt_json *json, const char *key, const char *type, bool is_nullable)
{
    open_typed(json, key, type, is_nullable);
    agt_json_close(json, '}');
}

static void write_map(struct agt_schemas *schemas, const char *key, struct agt_schema_type value)
{
    agt_json_open(schemas->json, key, '{');
    agt_json_str(schemas->json, "type", "object");
    agt_schema_write(schemas, "additionalProperties", value, false);
    agt_json_close(schemas->json, '}');
}

void agt_schema_write(struct agt_schemas *schemas, const char *key, struct agt_schema_type type,
                      bool is_nullable)
{
    switch (type.kind) {
    case AGT_SCHEMA_STRING:
        write_scalar(schemas->json, key, "string", is_nullable);
        break;
    case AGT_SCHEMA_INTEGER:
        write_scalar(schemas->json, key, "integer", is_nullable);
        break;
    case AGT_SCHEMA_NUMBER:
        write_scalar(schemas->json, key, "number", is_nullable);
        break;
    case AGT_SCHEMA_BOOLEAN:
        write_scalar(schemas->json, key, "boolean", is_nullable);
        break;
    case AGT_SCHEMA_STRINGS:
        write_list(schemas, key, (struct agt_schema_type){.kind = AGT_SCHEMA_STRING});
        break;
    case AGT_SCHEMA_LOCATION:
        write_list(schemas, key, (struct agt_schema_type){.kind = AGT_SCHEMA_NONE});
        break;
    case AGT_SCHEMA_STRING_MAP:
        write_map(schemas, key, (struct agt_schema_type){.kind = AGT_SCHEMA_STRING});
        break;
    case AGT_SCHEMA_MESSAGES:
        write_list(schemas, key, (struct agt_schema_type){AGT_SCHEMA_MESSAGE, type.of});
        break;
    case AGT_SCHEMA_SHAPES:
        write_list(schemas, key, (struct agt_schema_type){AGT_SCHEMA_SHAPE, type.of});
        break;
    case AGT_SCHEMA_MESSAGE:
    case AGT_SCHEMA_ENUM:
    case AGT_SCHEMA_SHAPE:
        if (is_nullable)
            write_nullable_ref(schemas, key, type);
        else
            write_ref(schemas, key, type);
        break;
    case AGT_SCHEMA_NONE:
        schemas->json->error = -EINVAL;
        break;
    }
}

/* ---- messages ---- */

static void write_bounded(struct agt_json *json, const char *key, int64_t least, int64_t most)
{
    open_typed(json, key, "integer", false);
    agt_json_int(json, "minimum", least);
    agt_json_int(json, "maximum", most);
    agt_json_close(json, '}');
}

/* Numbers that a double cannot hold are written as strings, and may be sent as such. */
static void write_wide(struct agt_json *json, const char *key)
{
    agt_json_open(json, key, '{');
    agt_json_open(json, "type", '[');
    agt_json_str(json, NULL, "integer");
    agt_json_str(json, NULL, "string");
    agt_json_close(json, ']');
    agt_json_close(json, '}');
}

static void write_bytes(struct agt_json *json, const char *key)
{
    open_typed(json, key, "string", false);
    agt_json_str(json, "contentEncoding", "base64");
    agt_json_close(json, '}');
}

static void write_field_value(struct agt_schemas *schemas, const char *key,
                              const ProtobufCFieldDescriptor *field)
{
    switch (field->type) {
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_SINT32:
    case PROTOBUF_C_TYPE_SFIXED32:
        write_bounded(schemas->json, key, INT32_MIN, INT32_MAX);
        break;
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_FIXED32:
        write_bounded(schemas->json, key, 0, UINT32_MAX);
        break;
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64:
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
        write_wide(schemas->json, key);
        break;
    case PROTOBUF_C_TYPE_FLOAT:
    case PROTOBUF_C_TYPE_DOUBLE:
        write_scalar(schemas->json, key, "number", false);
        break;
    case PROTOBUF_C_TYPE_BOOL:
        write_scalar(schemas->json, key, "boolean", false);
        break;
    case PROTOBUF_C_TYPE_STRING:
        write_scalar(schemas->json, key, "string", false);
        break;
    case PROTOBUF_C_TYPE_BYTES:
        write_bytes(schemas->json, key);
        break;
    case PROTOBUF_C_TYPE_ENUM:
        write_ref(schemas, key, (struct agt_schema_type){AGT_SCHEMA_ENUM, field->descriptor});
        break;
    case PROTOBUF_C_TYPE_MESSAGE:
        write_ref(schemas, key, (struct agt_schema_type){AGT_SCHEMA_MESSAGE, field->descriptor});
        break;
    }
}

static void write_description(struct agt_json *json, const struct cr_buf *comment)
{
    if (comment->size > 0)
        agt_json_text(json, "description", comment->data, comment->size);
}

/* A schema beside a description: in JSON Schema 2020-12 a $ref may have neighbours, too. */
static void write_field(struct agt_schemas *schemas, const ProtobufCMessageDescriptor *message,
                        const ProtobufCFieldDescriptor *field)
{
    struct agt_json *json = schemas->json;
    const ProtobufCMessageDescriptor *entry = field->descriptor;
    CR_AUTO_BUF struct cr_buf comment;

    cr_buf_init(&comment, COMMENT_CAP);
    (void)rpc_comments_add_message(schemas->comments, message, field->name, &comment);
    agt_json_open(json, field->name, '{');
    write_description(json, &comment);
    if (rpc_json_is_map(field)) {
        agt_json_str(json, "type", "object");
        write_field_value(schemas, "additionalProperties", &entry->fields[1]);
    } else if (field->label == PROTOBUF_C_LABEL_REPEATED) {
        agt_json_str(json, "type", "array");
        write_field_value(schemas, "items", field);
    } else {
        agt_json_open(json, "allOf", '[');
        write_field_value(schemas, NULL, field);
        agt_json_close(json, ']');
    }
    agt_json_close(json, '}');
}

static void write_message(struct agt_schemas *schemas, const ProtobufCMessageDescriptor *message)
{
    struct agt_json *json = schemas->json;
    CR_AUTO_BUF struct cr_buf comment;

    cr_buf_init(&comment, COMMENT_CAP);
    (void)rpc_comments_add_message(schemas->comments, message, NULL, &comment);
    write_description(json, &comment);
    agt_json_str(json, "type", "object");
    agt_json_open(json, "properties", '{');
    for (unsigned i = 0; i < message->n_fields; i++)
        write_field(schemas, message, &message->fields[i]);
    agt_json_close(json, '}');
    agt_json_bool(json, "additionalProperties", false);
}

/* By the short names, as answers have them. */
static void write_enum(struct agt_schemas *schemas, const ProtobufCEnumDescriptor *descriptor)
{
    struct agt_json *json = schemas->json;
    CR_AUTO_BUF struct cr_buf comment;
    char prefix[RPC_JSON_NAME_MAX];
    size_t size;

    cr_buf_init(&comment, COMMENT_CAP);
    (void)rpc_comments_add_enum(schemas->comments, descriptor, NULL, &comment);
    write_description(json, &comment);
    rpc_json_enum_prefix(descriptor, prefix, sizeof(prefix));
    size = strlen(prefix);
    agt_json_str(json, "type", "string");
    agt_json_open(json, "enum", '[');
    for (unsigned i = 0; i < descriptor->n_values; i++) {
        const char *name = descriptor->values[i].name;
        bool has_prefix = strncmp(name, prefix, size) == 0 && name[size];

        agt_json_str(json, NULL, has_prefix ? name + size : name);
    }
    agt_json_close(json, ']');
}

/* ---- what REST alone has ---- */

static void write_member(struct agt_schemas *schemas, const struct agt_schema_member *member)
{
    struct agt_json *json = schemas->json;

    if (!member->help) {
        agt_schema_write(schemas, member->name, member->type, member->is_nullable);
        return;
    }
    agt_json_open(json, member->name, '{');
    agt_json_str(json, "description", member->help);
    agt_json_open(json, "allOf", '[');
    agt_schema_write(schemas, NULL, member->type, member->is_nullable);
    agt_json_close(json, ']');
    agt_json_close(json, '}');
}

static void write_shape(struct agt_schemas *schemas, const struct agt_schema_shape *shape)
{
    struct agt_json *json = schemas->json;

    agt_json_str(json, "description", shape->help);
    agt_json_str(json, "type", "object");
    agt_json_open(json, "properties", '{');
    for (size_t i = 0; i < shape->count; i++)
        write_member(schemas, &shape->members[i]);
    agt_json_close(json, '}');
    agt_json_open(json, "required", '[');
    for (size_t i = 0; i < shape->count; i++) {
        if (!shape->members[i].is_optional)
            agt_json_str(json, NULL, shape->members[i].name);
    }
    agt_json_close(json, ']');
    agt_json_bool(json, "additionalProperties", false);
}

void agt_schemas_write_components(struct agt_schemas *schemas)
{
    for (size_t i = 0; i < schemas->count && schemas->json->error == 0; i++) {
        struct agt_schema_type type = schemas->listed[i];

        agt_json_open(schemas->json, component_name(type), '{');
        if (type.kind == AGT_SCHEMA_SHAPE)
            write_shape(schemas, of(type));
        else if (type.kind == AGT_SCHEMA_ENUM)
            write_enum(schemas, of(type));
        else
            write_message(schemas, of(type));
        agt_json_close(schemas->json, '}');
    }
}
