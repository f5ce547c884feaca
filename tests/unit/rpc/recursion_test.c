/* SPDX-License-Identifier: Apache-2.0 */

/*
 * protobuf-c unpacks by recursion without a limit: 34 KB of a message type
 * that holds itself overflow the stack. So no such type may exist.
 */
#include "proto/descriptor_set.h"
#include "rpc/span.h"
#include "tests/harness/test.h"

#include <stdio.h>
#include <string.h>

#define MESSAGES_MAX 512
#define DEPTH_MAX 32

/* Field numbers of google/protobuf/descriptor.proto. */
enum {
    FILE_PACKAGE = 2,
    FILE_MESSAGE = 4,
    MESSAGE_FIELD = 2,
    MESSAGE_NESTED = 3,
    FIELD_TYPE_NAME = 6,
};

struct message {
    char name[256]; /* ".package.Message", as type_name has it */
    struct rpc_span body;
};

struct messages {
    struct message list[MESSAGES_MAX];
    size_t count;
};

static void add(struct messages *messages, const char *scope, struct rpc_span body)
{
    struct rpc_span name = rpc_span_get(body, 1);
    struct message *message = &messages->list[messages->count++];
    struct rpc_span value;
    uint32_t field;

    assert_true(messages->count <= MESSAGES_MAX);
    assert_in_range(snprintf(message->name, sizeof(message->name), "%s.%.*s", scope, (int)name.size,
                             (const char *)name.data),
                    2, sizeof(message->name) - 1);
    message->body = body;
    while (rpc_span_next(&body, &field, &value)) {
        if (field == MESSAGE_NESTED)
            add(messages, message->name, value);
    }
}

static void add_set(struct messages *messages, struct rpc_span set)
{
    struct rpc_span file;
    uint32_t field;

    while (rpc_span_next(&set, &field, &file)) {
        struct rpc_span package = rpc_span_get(file, FILE_PACKAGE);
        struct rpc_span value;
        char scope[256];

        (void)snprintf(scope, sizeof(scope), ".%.*s", (int)package.size,
                       (const char *)package.data);
        while (rpc_span_next(&file, &field, &value)) {
            if (field == FILE_MESSAGE)
                add(messages, scope, value);
        }
    }
}

static const struct message *find(const struct messages *messages, struct rpc_span name)
{
    for (size_t i = 0; i < messages->count; i++) {
        if (strlen(messages->list[i].name) == name.size && name.size > 0 &&
            memcmp(messages->list[i].name, name.data, name.size) == 0)
            return &messages->list[i];
    }
    return NULL; /* no type name, or an enum */
}

/* Depth of the deepest message in it; more than DEPTH_MAX means a cycle. */
static int depth_of(const struct messages *messages, const struct message *message, int level)
{
    struct rpc_span body = message->body;
    struct rpc_span value;
    int deepest = level;
    uint32_t field;

    if (level > DEPTH_MAX)
        return level;
    while (rpc_span_next(&body, &field, &value)) {
        const struct message *inner = NULL;

        if (field == MESSAGE_FIELD)
            inner = find(messages, rpc_span_get(value, FIELD_TYPE_NAME));
        if (inner) {
            int depth = depth_of(messages, inner, level + 1);

            deepest = depth > deepest ? depth : deepest;
        }
        if (deepest > DEPTH_MAX)
            break;
    }
    return deepest;
}

static void no_message_type_holds_itself(void **state)
{
    static struct messages messages;

    (void)state;
    messages.count = 0;
    add_set(&messages, (struct rpc_span){crisol_descriptor_set, (size_t)(crisol_descriptor_set_end -
                                                                         crisol_descriptor_set)});
    assert_true(messages.count > 20);
    for (size_t i = 0; i < messages.count; i++) {
        if (depth_of(&messages, &messages.list[i], 0) > DEPTH_MAX)
            fail_msg("%s is recursive, or deeper than %d", messages.list[i].name, DEPTH_MAX);
    }
}

/* message M { M m = 1; } */
static void the_check_finds_recursion(void **state)
{
    static const uint8_t set[] = "\x0A\x13\x0A\x01"
                                 "f\x12\x01"
                                 "p\x22\x0B\x0A\x01"
                                 "M\x12\x06\x32\x04"
                                 ".p.M";
    static struct messages messages;

    (void)state;
    messages.count = 0;
    add_set(&messages, (struct rpc_span){set, sizeof(set) - 1});
    assert_int_equal(messages.count, 1);
    assert_true(depth_of(&messages, &messages.list[0], 0) > DEPTH_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_message_type_holds_itself),
        cmocka_unit_test(the_check_finds_recursion),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
