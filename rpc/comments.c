/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/comments.h"

#include "common/auto.h"
#include "common/buf.h"
#include "rpc/span.h"

#include <stdbool.h>
#include <string.h>

/* Field numbers of google/protobuf/descriptor.proto. */
enum {
    SET_FILE = 1,
    ANY_NAME = 1,
    FILE_PACKAGE = 2,
    FILE_MESSAGE = 4,
    FILE_ENUM = 5,
    FILE_SOURCE_INFO = 9,
    MESSAGE_FIELD = 2,
    ENUM_VALUE = 2,
    INFO_LOCATION = 1,
    LOCATION_PATH = 1,
    LOCATION_COMMENT = 3,
};

/* Numbers of fields and indexes in turn: [4, 7, 2, 0] is the first field of the eighth message. */
struct path {
    uint32_t items[4];
    size_t count;
};

static bool span_is(struct rpc_span span, const char *text)
{
    return span.size == strlen(text) && memcmp(span.data, text, span.size) == 0;
}

/* Finds what is called `name` among the fields `number`; its index in *ret_index. */
static bool find_named(struct rpc_span span, uint32_t number, const char *name, uint32_t *ret_index,
                       struct rpc_span *ret_found)
{
    struct rpc_span value;
    uint32_t index = 0;
    uint32_t field;

    while (rpc_span_next(&span, &field, &value)) {
        if (field != number)
            continue;
        if (span_is(rpc_span_get(value, ANY_NAME), name)) {
            *ret_index = index;
            *ret_found = value;
            return true;
        }
        index++;
    }
    return false;
}

static bool find_path(struct rpc_span file, uint32_t number, const char *name, uint32_t member,
                      const char *member_name, struct path *ret_path)
{
    struct rpc_span found;
    struct path path = {.items = {number}, .count = 2};

    if (!find_named(file, number, name, &path.items[1], &found))
        return false;
    if (member_name) {
        path.items[2] = member;
        path.count = 4;
        if (!find_named(found, member, member_name, &path.items[3], &found))
            return false;
    }
    *ret_path = path;
    return true;
}

/* A location's path is a packed list of varints. */
static bool path_is(struct rpc_span packed, const struct path *path)
{
    for (size_t i = 0; i < path->count; i++) {
        uint32_t number = 0;
        unsigned shift = 0;

        do {
            if (packed.size == 0 || shift > 28)
                return false;
            number |= (uint32_t)(*packed.data & 0x7F) << shift;
            shift += 7;
            packed.size--;
        } while (*packed.data++ & 0x80);
        if (number != path->items[i])
            return false;
    }
    return packed.size == 0;
}

static struct rpc_span find_comment(struct rpc_span file, const struct path *path)
{
    struct rpc_span locations = rpc_span_get(file, FILE_SOURCE_INFO);
    struct rpc_span location;
    uint32_t field;

    while (rpc_span_next(&locations, &field, &location)) {
        if (field == INFO_LOCATION && path_is(rpc_span_get(location, LOCATION_PATH), path))
            return rpc_span_get(location, LOCATION_COMMENT);
    }
    return (struct rpc_span){NULL, 0};
}

/* Lines of a comment are lines of the source only: they become one. */
static int add_text(struct cr_buf *buf, struct rpc_span text)
{
    bool needs_space = false;
    bool has_text = false;
    int r = 0;

    for (size_t i = 0; i < text.size && r >= 0; i++) {
        char character = (char)text.data[i];

        if (character == ' ' || character == '\n') {
            needs_space = has_text;
            continue;
        }
        if (needs_space)
            r = cr_buf_add_char(buf, ' ');
        if (r >= 0)
            r = cr_buf_add_char(buf, character);
        needs_space = false;
        has_text = true;
    }
    return r < 0 ? r : 0;
}

static int add_comment(const struct rpc_comments *comments, const char *package, const char *name,
                       const uint32_t numbers[2], const char *member_name, struct cr_buf *buf)
{
    struct rpc_span set = {comments->data, comments->data ? comments->size : 0};
    struct rpc_span file;
    struct path path;
    uint32_t field;

    while (rpc_span_next(&set, &field, &file)) {
        if (field == SET_FILE && span_is(rpc_span_get(file, FILE_PACKAGE), package) &&
            find_path(file, numbers[0], name, numbers[1], member_name, &path))
            return add_text(buf, find_comment(file, &path));
    }
    return 0;
}

int rpc_comments_add_message(const struct rpc_comments *comments,
                             const ProtobufCMessageDescriptor *message, const char *field,
                             struct cr_buf *buf)
{
    static const uint32_t numbers[] = {FILE_MESSAGE, MESSAGE_FIELD};

    return add_comment(comments, message->package_name, message->short_name, numbers, field, buf);
}

int rpc_comments_add_enum(const struct rpc_comments *comments,
                          const ProtobufCEnumDescriptor *descriptor, const char *value,
                          struct cr_buf *buf)
{
    static const uint32_t numbers[] = {FILE_ENUM, ENUM_VALUE};

    return add_comment(comments, descriptor->package_name, descriptor->short_name, numbers, value,
                       buf);
}
