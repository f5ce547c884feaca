/* SPDX-License-Identifier: Apache-2.0 */
#include "common/buf.h"
#include "crisol/agent/v1/agent.pb-c.h"
#include "crisol/sandbox/v1/sandbox.pb-c.h"
#include "everything.pb-c.h"
#include "rpc/json.h"
#include "rpc/status.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * One conversion per line of standard input, one answer per line of output:
 *   write TYPE STYLE WIRE-IN-HEX  ->  ok JSON
 *   read TYPE STYLE JSON-IN-HEX   ->  ok WIRE-IN-HEX, or "error MESSAGE"
 * STYLE is the sum of 1 snake case, 2 defaults, 4 numbers, 8 short enum names.
 * For json_compare.py.
 */
#define LINE_MAX_BYTES ((size_t)8 << 20)

static const ProtobufCMessageDescriptor *const types[] = {
    &crisol__test__v1__everything__descriptor,
    &crisol__sandbox__v1__execute_request__descriptor,
    &crisol__sandbox__v1__execute_response__descriptor,
    &crisol__sandbox__v1__run_response__descriptor,
    &crisol__sandbox__v1__get_capabilities_response__descriptor,
    &crisol__sandbox__v1__list_runtimes_response__descriptor,
    &crisol__agent__v1__generate_request__descriptor,
    &crisol__agent__v1__generate_response__descriptor,
    &crisol__agent__v1__generate_stream_response__descriptor,
    &crisol__agent__v1__describe_graph_response__descriptor,
};

static void die(const char *what)
{
    (void)fprintf(stderr, "json_tool: %s\n", what);
    exit(EXIT_FAILURE);
}

static const ProtobufCMessageDescriptor *find_type(const char *name)
{
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
        if (strcmp(types[i]->name, name) == 0)
            return types[i];
    die("unknown type");
    return NULL;
}

static size_t from_hex(char *text)
{
    size_t size = strlen(text) / 2;

    for (size_t i = 0; i < size; i++) {
        const char digits[3] = {text[2 * i], text[2 * i + 1], '\0'};

        text[i] = (char)strtoul(digits, NULL, 16);
    }
    return size;
}

static void print_hex(const uint8_t *data, size_t size)
{
    (void)printf("ok ");
    for (size_t i = 0; i < size; i++)
        (void)printf("%02x", data[i]);
    (void)printf("\n");
}

static void write_json(const ProtobufCMessageDescriptor *type, unsigned flags, char *hex)
{
    const struct rpc_json_style style = {.use_snake_case = flags & 1,
                                         .with_defaults = flags & 2,
                                         .int64_as_number = flags & 4,
                                         .strip_enum_prefix = flags & 8};
    struct cr_buf buf = {0};
    size_t size = from_hex(hex);
    ProtobufCMessage *message = protobuf_c_message_unpack(type, NULL, size, (const uint8_t *)hex);

    cr_buf_init(&buf, LINE_MAX_BYTES);
    if (!message || rpc_json_write(message, &style, &buf) < 0)
        die("cannot write");
    (void)printf("ok %s\n", cr_buf_str(&buf));
    cr_buf_done(&buf);
    protobuf_c_message_free_unpacked(message, NULL);
}

static void read_json(const ProtobufCMessageDescriptor *type, char *hex)
{
    struct rpc_status status = RPC_STATUS_INIT;
    ProtobufCMessage *message = NULL;
    size_t size = from_hex(hex);
    uint8_t *packed;

    if (rpc_json_read(type, hex, size, &message, &status) < 0) {
        (void)printf("error %s\n", status.message);
        return;
    }
    size = protobuf_c_message_get_packed_size(message);
    packed = malloc(size + 1);
    if (!packed)
        die("out of memory");
    print_hex(packed, protobuf_c_message_pack(message, packed));
    free(packed);
    protobuf_c_message_free_unpacked(message, NULL);
}

static void answer(char *line)
{
    char *rest = line;
    const char *verb = strsep(&rest, " ");
    const char *type = strsep(&rest, " ");
    const char *flags = strsep(&rest, " ");

    if (!type || !flags || !rest)
        die("a line with fewer than four words");
    if (strcmp(verb, "write") == 0)
        write_json(find_type(type), (unsigned)strtoul(flags, NULL, 10), rest);
    else
        read_json(find_type(type), rest);
    (void)fflush(stdout);
}

int main(void)
{
    char *line = NULL;
    size_t room = 0;
    ssize_t size;

    while ((size = getline(&line, &room, stdin)) > 0) {
        if (line[size - 1] == '\n')
            line[size - 1] = '\0';
        answer(line);
    }
    free(line);
    return EXIT_SUCCESS;
}
