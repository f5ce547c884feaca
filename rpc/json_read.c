/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/json.h"
#include "rpc/json_field.h"
#include "rpc/json_reader.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_MAX ((size_t)4 << 20)
#define DEPTH_MAX 64U
#define FIELDS_MAX 512U
#define NAMES_BYTES 220 /* with what stands before them they fit a description */

/*
 * Reading goes straight from tokens into the message, without a tree between:
 * numbers keep all their digits and memory is bounded by the message.
 *
 * Every read_… function is entered with the first token of its value as the
 * current one and leaves with the last; it returns 0 or a negative errno with
 * the status filled in.
 */

/* ---- objects ---- */

static int next_is(struct rpc_json_reader *reader, enum rpc_json_token token, const char *expected)
{
    if (rpc_json_lex_next(&reader->lex) != token)
        return rpc_json_fail_syntax(reader, expected);
    return 0;
}

static int enter(struct rpc_json_reader *reader, enum rpc_json_token open, const char *allowed)
{
    if (reader->lex.token != open)
        return rpc_json_fail_kind(reader, allowed);
    if (++reader->depth > DEPTH_MAX)
        return rpc_json_fail(reader, "nested too deep; at most %u levels are allowed", DEPTH_MAX);
    return 0;
}

/* Calls `read_member` with each name as the current token; it reads the value, too. */
static int read_object(struct rpc_json_reader *reader,
                       int (*read_member)(struct rpc_json_reader *reader, void *user), void *user)
{
    int r = enter(reader, RPC_JSON_OBJECT_OPEN, "must be an object");

    if (r == 0 && rpc_json_lex_next(&reader->lex) == RPC_JSON_OBJECT_CLOSE) {
        reader->depth--;
        return 0;
    }
    while (r == 0) {
        if (reader->lex.token != RPC_JSON_STRING)
            return rpc_json_fail_syntax(reader, "a name in quotes");
        r = read_member(reader, user);
        if (r < 0)
            break;
        if (rpc_json_lex_next(&reader->lex) == RPC_JSON_OBJECT_CLOSE)
            break;
        if (reader->lex.token != RPC_JSON_COMMA)
            return rpc_json_fail_syntax(reader, "',' or '}'");
        (void)rpc_json_lex_next(&reader->lex);
    }
    reader->depth--;
    return r;
}

/* Calls `read_item` with the first token of each as the current one. */
static int read_array(struct rpc_json_reader *reader,
                      int (*read_item)(struct rpc_json_reader *reader, void *user), void *user)
{
    int r = enter(reader, RPC_JSON_ARRAY_OPEN, "must be a list in [ ]");

    if (r == 0 && rpc_json_lex_next(&reader->lex) == RPC_JSON_ARRAY_CLOSE) {
        reader->depth--;
        return 0;
    }
    while (r == 0) {
        r = read_item(reader, user);
        if (r < 0)
            break;
        if (rpc_json_lex_next(&reader->lex) == RPC_JSON_ARRAY_CLOSE)
            break;
        if (reader->lex.token != RPC_JSON_COMMA)
            return rpc_json_fail_syntax(reader, "',' or ']'");
        (void)rpc_json_lex_next(&reader->lex);
    }
    reader->depth--;
    return r;
}

/* ---- what is not looked at ---- */

static int skip_member(struct rpc_json_reader *reader, void *user);

static int skip_value(struct rpc_json_reader *reader, void *user)
{
    switch (reader->lex.token) {
    case RPC_JSON_OBJECT_OPEN:
        return read_object(reader, skip_member, user);
    case RPC_JSON_ARRAY_OPEN:
        return read_array(reader, skip_value, user);
    case RPC_JSON_STRING:
    case RPC_JSON_NUMBER:
    case RPC_JSON_TRUE:
    case RPC_JSON_FALSE:
    case RPC_JSON_NULL:
        return 0;
    default:
        return rpc_json_fail_syntax(reader, "a value");
    }
}

static int skip_member(struct rpc_json_reader *reader, void *user)
{
    int r = next_is(reader, RPC_JSON_COLON, "':'");

    if (r < 0)
        return r;
    (void)rpc_json_lex_next(&reader->lex);
    return skip_value(reader, user);
}

/* ---- messages ---- */

/* A message that is being read. */
struct filling {
    ProtobufCMessage *message;
    uint64_t seen[FIELDS_MAX / 64]; /* bit set of indexes into descriptor->fields */
};

static int read_member(struct rpc_json_reader *reader, void *user);

static int read_message(struct rpc_json_reader *reader,
                        const ProtobufCMessageDescriptor *descriptor,
                        ProtobufCMessage **ret_message)
{
    struct filling filling = {0};

    if (descriptor->n_fields > FIELDS_MAX)
        return rpc_json_fail(reader, "messages of type %s are too large for JSON",
                             descriptor->name);
    filling.message = rpc_json_allocate(reader, descriptor->sizeof_message);
    if (!filling.message)
        return -ENOMEM;
    protobuf_c_message_init(descriptor, filling.message);
    /* Given away before it is filled: whoever frees the root frees it in any state. */
    *ret_message = filling.message;
    return read_object(reader, read_member, &filling);
}

static int read_value(struct rpc_json_reader *reader, const ProtobufCFieldDescriptor *field,
                      void *slot)
{
    if (field->type == PROTOBUF_C_TYPE_MESSAGE)
        return read_message(reader, field->descriptor, slot);
    return rpc_json_read_scalar(reader, field, slot);
}

static void *member(ProtobufCMessage *message, size_t offset)
{
    return (char *)message + offset;
}

/* ---- lists and maps ---- */

/*
 * Adds a zeroed slot at the end of a repeated field and counts it. The room is
 * the power of two at or above the count, so it need not be kept anywhere.
 */
static void *add_slot(struct rpc_json_reader *reader, ProtobufCMessage *message,
                      const ProtobufCFieldDescriptor *field)
{
    size_t *count = member(message, field->quantifier_offset);
    char **values = member(message, field->offset);
    size_t size = rpc_json_value_size(field->type);
    char *slot;

    if ((*count & (*count - 1)) == 0) {
        char *larger = rpc_json_allocate(reader, (*count ? *count * 2 : 1) * size);

        if (!larger)
            return NULL;
        if (*count > 0)
            memcpy(larger, *values, *count * size);
        free(*values);
        *values = larger;
    }
    slot = *values + *count * size;
    memset(slot, 0, size);
    (*count)++;
    return slot;
}

/* A repeated field that is being read. */
struct list {
    ProtobufCMessage *message;
    const ProtobufCFieldDescriptor *field;
};

static int read_element(struct rpc_json_reader *reader, void *user)
{
    const struct list *list = user;
    size_t index = *(const size_t *)member(list->message, list->field->quantifier_offset);
    size_t before = rpc_json_path_add(reader, "[%zu]", index);
    void *slot;
    int r;

    if (reader->lex.token == RPC_JSON_NULL)
        return rpc_json_fail(reader, "must not be null");
    slot = add_slot(reader, list->message, list->field);
    if (!slot)
        return -ENOMEM;
    r = read_value(reader, list->field, slot);
    if (r == 0)
        rpc_json_path_cut(reader, before);
    return r;
}

static int read_list(struct rpc_json_reader *reader, ProtobufCMessage *message,
                     const ProtobufCFieldDescriptor *field)
{
    struct list list = {.message = message, .field = field};

    return read_array(reader, read_element, &list);
}

static int read_map_key(struct rpc_json_reader *reader, const ProtobufCFieldDescriptor *field,
                        void *slot)
{
    /* In a key booleans stand in quotes, too. */
    if (field->type == PROTOBUF_C_TYPE_BOOL) {
        bool is_true = reader->lex.value_size == 4 && memcmp(reader->lex.value, "true", 4) == 0;

        if (!is_true && (reader->lex.value_size != 5 || memcmp(reader->lex.value, "false", 5) != 0))
            return rpc_json_fail(reader, "the key must be \"true\" or \"false\"");
        *(protobuf_c_boolean *)slot = is_true;
        return 0;
    }
    return read_value(reader, field, slot);
}

/* A map that is being read. */
struct map {
    ProtobufCMessage *message;
    const ProtobufCFieldDescriptor *field;
};

static int read_entry(struct rpc_json_reader *reader, void *user)
{
    const struct map *map = user;
    const ProtobufCMessageDescriptor *descriptor = map->field->descriptor;
    ProtobufCMessage **slot = add_slot(reader, map->message, map->field);
    char shown[RPC_JSON_SHOWN_MAX + 1];
    size_t before;
    int r;

    if (!slot)
        return -ENOMEM;
    *slot = rpc_json_allocate(reader, descriptor->sizeof_message);
    if (!*slot)
        return -ENOMEM;
    protobuf_c_message_init(descriptor, *slot);
    rpc_json_show_name(&reader->lex, shown);
    before = rpc_json_path_add(reader, "[\"%s\"]", shown);
    r = read_map_key(reader, &descriptor->fields[0], member(*slot, descriptor->fields[0].offset));
    if (r == 0)
        r = next_is(reader, RPC_JSON_COLON, "':'");
    if (r < 0)
        return r;
    if (rpc_json_lex_next(&reader->lex) == RPC_JSON_NULL)
        return rpc_json_fail(reader, "must not be null");
    r = read_value(reader, &descriptor->fields[1], member(*slot, descriptor->fields[1].offset));
    if (r == 0)
        rpc_json_path_cut(reader, before);
    return r;
}

static int compare_keys(const void *left, const void *right, void *user)
{
    const ProtobufCFieldDescriptor *key = user;
    const char *left_key = *(const char *const *)left + key->offset;
    const char *right_key = *(const char *const *)right + key->offset;

    if (key->type == PROTOBUF_C_TYPE_STRING)
        return strcmp(*(char *const *)left_key, *(char *const *)right_key);
    return memcmp(left_key, right_key, rpc_json_value_size(key->type));
}

/* By a sorted copy of the pointers: comparing each with each would let 4 MiB of keys take minutes.
 */
static int refuse_duplicate_keys(struct rpc_json_reader *reader, const struct map *map)
{
    const ProtobufCMessageDescriptor *entry = map->field->descriptor;
    ProtobufCFieldDescriptor key = entry->fields[0];
    size_t count = *(const size_t *)member(map->message, map->field->quantifier_offset);
    const void **sorted;
    int r = 0;

    if (count < 2)
        return 0;
    sorted = rpc_json_allocate(reader, count * sizeof(*sorted));
    if (!sorted)
        return -ENOMEM;
    memcpy(sorted, *(void **)member(map->message, map->field->offset), count * sizeof(*sorted));
    qsort_r(sorted, count, sizeof(*sorted), compare_keys, &key);
    for (size_t i = 1; i < count && r == 0; i++) {
        if (compare_keys(&sorted[i - 1], &sorted[i], &key) == 0)
            r = rpc_json_fail(reader, "has the same key twice");
    }
    free(sorted);
    return r;
}

static int read_map(struct rpc_json_reader *reader, ProtobufCMessage *message,
                    const ProtobufCFieldDescriptor *field)
{
    struct map map = {.message = message, .field = field};
    int r = read_object(reader, read_entry, &map);

    return r < 0 ? r : refuse_duplicate_keys(reader, &map);
}

/* ---- fields ---- */

static const ProtobufCFieldDescriptor *find_field(const ProtobufCMessageDescriptor *descriptor,
                                                  const struct rpc_json_lex *lex)
{
    char name[RPC_JSON_NAME_MAX];
    char camel[RPC_JSON_NAME_MAX];
    const ProtobufCFieldDescriptor *field;

    if (lex->value_size >= sizeof(name))
        return NULL;
    (void)rpc_json_lex_unescape(lex, name);
    field = protobuf_c_message_descriptor_get_field_by_name(descriptor, name);
    for (unsigned i = 0; !field && i < descriptor->n_fields; i++) {
        rpc_json_camel(descriptor->fields[i].name, camel, sizeof(camel));
        if (strcmp(camel, name) == 0)
            field = &descriptor->fields[i];
    }
    return field;
}

static int read_oneof(struct rpc_json_reader *reader, ProtobufCMessage *message,
                      const ProtobufCFieldDescriptor *field)
{
    uint32_t *chosen = member(message, field->quantifier_offset);
    const ProtobufCFieldDescriptor *other =
        *chosen ? protobuf_c_message_descriptor_get_field(message->descriptor, *chosen) : NULL;

    if (other)
        return rpc_json_fail(reader, "cannot be given together with '%s'", other->name);
    memset(member(message, field->offset), 0, rpc_json_value_size(field->type));
    *chosen = field->id;
    return read_value(reader, field, member(message, field->offset));
}

static int read_field(struct rpc_json_reader *reader, ProtobufCMessage *message,
                      const ProtobufCFieldDescriptor *field)
{
    if (rpc_json_is_map(field))
        return read_map(reader, message, field);
    if (field->label == PROTOBUF_C_LABEL_REPEATED)
        return read_list(reader, message, field);
    if (rpc_json_is_oneof(field))
        return read_oneof(reader, message, field);
    return read_value(reader, field, member(message, field->offset));
}

/* Says which fields there are, as many as the answer has room for. */
static int refuse_unknown(struct rpc_json_reader *reader,
                          const ProtobufCMessageDescriptor *descriptor)
{
    char names[NAMES_BYTES + sizeof(", …")] = "";
    size_t used = 0;

    for (unsigned i = 0; i < descriptor->n_fields; i++) {
        const char *name = descriptor->fields[i].name;
        bool has_room = used + strlen(", ") + strlen(name) <= NAMES_BYTES;

        (void)snprintf(names + used, sizeof(names) - used, "%s%s", i > 0 ? ", " : "",
                       has_room ? name : "…");
        if (!has_room)
            break;
        used += strlen(names + used);
    }
    return rpc_json_fail(reader, "unknown field%s%s", names[0] ? "; known: " : "", names);
}

static int read_member(struct rpc_json_reader *reader, void *user)
{
    struct filling *filling = user;
    const ProtobufCMessageDescriptor *descriptor = filling->message->descriptor;
    const ProtobufCFieldDescriptor *field = find_field(descriptor, &reader->lex);
    char shown[RPC_JSON_SHOWN_MAX + 1];
    size_t before;
    size_t index;
    int r;

    rpc_json_show_name(&reader->lex, shown);
    before = rpc_json_path_add(reader, "%s%s", reader->path_size ? "." : "", shown);
    if (!field && reader->leniency.skips_unknown) {
        r = skip_member(reader, NULL);
        if (r == 0)
            rpc_json_path_cut(reader, before);
        return r;
    }
    if (!field)
        return refuse_unknown(reader, descriptor);
    index = (size_t)(field - descriptor->fields);
    if (filling->seen[index / 64] >> (index % 64) & 1)
        return rpc_json_fail(reader, "is given twice");
    filling->seen[index / 64] |= UINT64_C(1) << (index % 64);
    r = next_is(reader, RPC_JSON_COLON, "':'");
    if (r < 0)
        return r;
    /* null is the same as leaving the field out. */
    if (rpc_json_lex_next(&reader->lex) != RPC_JSON_NULL)
        r = read_field(reader, filling->message, field);
    if (r == 0)
        rpc_json_path_cut(reader, before);
    return r;
}

int rpc_json_read_leniently(const ProtobufCMessageDescriptor *descriptor, const char *text,
                            size_t size, const struct rpc_json_leniency *leniency,
                            ProtobufCMessage **ret_message, struct rpc_status *ret_status)
{
    struct rpc_json_reader reader = {.status = ret_status, .leniency = *leniency};
    ProtobufCMessage *message = NULL;
    int r;

    if (size > TEXT_MAX)
        return rpc_json_fail(&reader, "the JSON text has %zu bytes; at most %zu are allowed", size,
                             TEXT_MAX);
    rpc_json_lex_init(&reader.lex, text, size);
    (void)rpc_json_lex_next(&reader.lex);
    r = read_message(&reader, descriptor, &message);
    if (r == 0)
        r = next_is(&reader, RPC_JSON_END, "the end of the text");
    if (r < 0) {
        if (message)
            protobuf_c_message_free_unpacked(message, NULL);
        return r;
    }
    *ret_message = message;
    return 0;
}

int rpc_json_read(const ProtobufCMessageDescriptor *descriptor, const char *text, size_t size,
                  ProtobufCMessage **ret_message, struct rpc_status *ret_status)
{
    static const struct rpc_json_leniency none = {.skips_unknown = false};

    return rpc_json_read_leniently(descriptor, text, size, &none, ret_message, ret_status);
}
