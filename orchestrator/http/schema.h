/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "orchestrator/http/json_out.h"
#include "rpc/comments.h"

#include <stdbool.h>
#include <stddef.h>

/*
 * JSON Schema (2020-12, as OpenAPI 3.1 uses it) of what REST takes and gives:
 * of messages and enums by their descriptors, with the comments of the .proto
 * files, and of the objects that REST alone has, by tables.
 */
enum agt_schema_kind {
    AGT_SCHEMA_NONE,
    AGT_SCHEMA_STRING,
    AGT_SCHEMA_INTEGER,
    AGT_SCHEMA_NUMBER,
    AGT_SCHEMA_BOOLEAN,
    AGT_SCHEMA_STRINGS,    /* a list of them */
    AGT_SCHEMA_STRING_MAP, /* an object whose values they are */
    AGT_SCHEMA_LOCATION,   /* a list of names and indexes */
    AGT_SCHEMA_MESSAGE,    /* `of` is a ProtobufCMessageDescriptor */
    AGT_SCHEMA_MESSAGES,   /* a list of them */
    AGT_SCHEMA_ENUM,       /* `of` is a ProtobufCEnumDescriptor */
    AGT_SCHEMA_SHAPE,      /* `of` is a struct agt_schema_shape */
    AGT_SCHEMA_SHAPES,     /* a list of them */
};

struct agt_schema_type {
    enum agt_schema_kind kind;
    const void *of; /* static storage */
};

/* A member of an object that REST alone has. */
struct agt_schema_member {
    const char *name;
    struct agt_schema_type type;
    const char *help; /* NULL: nothing to say */
    bool is_nullable;
    bool is_optional; /* it may be missing */
};

struct agt_schema_shape {
    const char *name; /* of the component */
    const char *help;
    const struct agt_schema_member *members;
    size_t count;
};

#define AGT_SCHEMAS_MAX 192

/* What a document refers to, each once; it grows while components are written. */
struct agt_schemas {
    struct agt_json *json;               /* borrowed */
    const struct rpc_comments *comments; /* borrowed */
    struct agt_schema_type listed[AGT_SCHEMAS_MAX];
    size_t count;
};

/* Writes a schema as a value: {"type":…} or {"$ref":…}, whose component is then listed. */
void agt_schema_write(struct agt_schemas *schemas, const char *key, struct agt_schema_type type,
                      bool is_nullable);

/* Writes every listed component as a member of an object, and what these refer to. */
void agt_schemas_write_components(struct agt_schemas *schemas);
