/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/descriptors.h"

#include "common/auto.h"
#include "common/err.h"
#include "common/unconst.h"
#include "rpc/span.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define SYMBOLS_MAX 65536
#define NAME_MAX_BYTES 512
#define NESTING_MAX 32

/* Field numbers of google/protobuf/descriptor.proto. */
enum {
    SET_FILE = 1,
    ANY_NAME = 1, /* of a file, message, enum, service, … */
    FILE_PACKAGE = 2,
    FILE_DEPENDENCY = 3,
    FILE_MESSAGE = 4,
    FILE_ENUM = 5,
    FILE_SERVICE = 6,
    FILE_EXTENSION = 7,
    MESSAGE_FIELD = 2,
    MESSAGE_NESTED = 3,
    MESSAGE_ENUM = 4,
    MESSAGE_EXTENSION = 6,
    MESSAGE_ONEOF = 8,
    ENUM_VALUE = 2,
    SERVICE_METHOD = 2,
};

struct symbol {
    char *name;
    int file;
    bool is_message;
};

struct rpc_descriptors {
    struct rpc_span files[RPC_DESCRIPTORS_FILES_MAX]; /* borrowed from the set */
    size_t file_count;
    struct symbol *symbols; /* sorted by name */
    size_t symbol_count;
    size_t symbol_room;
};

/* Where in a file the walk is. */
struct scope {
    struct rpc_descriptors *descriptors;
    int file;
    unsigned int depth;
    char name[NAME_MAX_BYTES]; /* "package.Message", empty: no package */
};

static int make_room(struct rpc_descriptors *descriptors)
{
    size_t room = descriptors->symbol_room > 0 ? descriptors->symbol_room * 2 : 256;
    struct symbol *symbols;

    if (descriptors->symbol_count < descriptors->symbol_room)
        return 0;
    if (room > SYMBOLS_MAX)
        return -EINVAL;
    symbols = reallocarray(descriptors->symbols, room, sizeof(*symbols));
    if (!symbols)
        return -ENOMEM;
    descriptors->symbols = symbols;
    descriptors->symbol_room = room;
    return 0;
}

static int join(const struct scope *scope, struct rpc_span name, char full[NAME_MAX_BYTES])
{
    int n = snprintf(full, NAME_MAX_BYTES, "%s%s%.*s", scope->name, scope->name[0] ? "." : "",
                     (int)name.size, (const char *)name.data);

    return name.size > 0 && n > 0 && n < NAME_MAX_BYTES ? 0 : -EINVAL;
}

/* Adds what `item` (a descriptor of any kind) defines. */
static int add_symbol(const struct scope *scope, struct rpc_span item, bool is_message)
{
    struct rpc_descriptors *descriptors = scope->descriptors;
    char full[NAME_MAX_BYTES];
    int r = join(scope, rpc_span_get(item, ANY_NAME), full);
    struct symbol *symbol;

    if (r == 0)
        r = make_room(descriptors);
    if (r < 0)
        return r;
    symbol = &descriptors->symbols[descriptors->symbol_count];
    symbol->name = strdup(full);
    if (!symbol->name)
        return -ENOMEM;
    symbol->file = scope->file;
    symbol->is_message = is_message;
    descriptors->symbol_count++;
    return 0;
}

static int add_fields(const struct scope *scope, struct rpc_span item, uint32_t field)
{
    struct rpc_span value;
    uint32_t found;
    int r = 0;

    while (r == 0 && rpc_span_next(&item, &found, &value)) {
        if (found == field)
            r = add_symbol(scope, value, false);
    }
    return r < 0 || item.size == 0 ? r : -EINVAL;
}

/* Values of an enum are names beside it, not in it. */
static int add_enum(const struct scope *scope, struct rpc_span item)
{
    int r = add_symbol(scope, item, false);

    return r < 0 ? r : add_fields(scope, item, ENUM_VALUE);
}

static int enter(const struct scope *outer, struct rpc_span item, struct scope *inner)
{
    inner->descriptors = outer->descriptors;
    inner->file = outer->file;
    inner->depth = outer->depth + 1;
    if (inner->depth > NESTING_MAX)
        return -EINVAL;
    return join(outer, rpc_span_get(item, ANY_NAME), inner->name);
}

static int add_service(const struct scope *scope, struct rpc_span item)
{
    struct scope inner;
    int r = enter(scope, item, &inner);

    if (r == 0)
        r = add_symbol(scope, item, false);
    return r < 0 ? r : add_fields(&inner, item, SERVICE_METHOD);
}

static int add_message(const struct scope *scope, struct rpc_span item);

static int add_message_part(const struct scope *scope, uint32_t field, struct rpc_span value)
{
    switch (field) {
    case MESSAGE_NESTED:
        return add_message(scope, value);
    case MESSAGE_ENUM:
        return add_enum(scope, value);
    case MESSAGE_FIELD:
    case MESSAGE_EXTENSION:
    case MESSAGE_ONEOF:
        return add_symbol(scope, value, false);
    default:
        return 0;
    }
}

/* Recursion is bounded by NESTING_MAX (enter). */
static int add_message(const struct scope *scope, struct rpc_span item)
{
    struct rpc_span value;
    struct scope inner;
    uint32_t field;
    int r = enter(scope, item, &inner);

    if (r == 0)
        r = add_symbol(scope, item, true);
    while (r == 0 && rpc_span_next(&item, &field, &value))
        r = add_message_part(&inner, field, value);
    return r < 0 || item.size == 0 ? r : -EINVAL;
}

static int add_file_part(const struct scope *scope, uint32_t field, struct rpc_span value)
{
    switch (field) {
    case FILE_MESSAGE:
        return add_message(scope, value);
    case FILE_ENUM:
        return add_enum(scope, value);
    case FILE_SERVICE:
        return add_service(scope, value);
    case FILE_EXTENSION:
        return add_symbol(scope, value, false);
    default:
        return 0;
    }
}

static int add_file(struct rpc_descriptors *descriptors, struct rpc_span file)
{
    struct rpc_span package = rpc_span_get(file, FILE_PACKAGE);
    struct scope scope = {.descriptors = descriptors, .file = (int)descriptors->file_count};
    struct rpc_span value;
    uint32_t field;
    int r = 0;

    if (descriptors->file_count == RPC_DESCRIPTORS_FILES_MAX || package.size >= NAME_MAX_BYTES)
        return -EINVAL;
    descriptors->files[descriptors->file_count++] = file;
    if (package.size > 0)
        memcpy(scope.name, package.data, package.size);
    while (r == 0 && rpc_span_next(&file, &field, &value))
        r = add_file_part(&scope, field, value);
    return r < 0 || file.size == 0 ? r : -EINVAL;
}

static int compare_symbols(const void *a, const void *b)
{
    return strcmp(((const struct symbol *)a)->name, ((const struct symbol *)b)->name);
}

static int add_set(struct rpc_descriptors *descriptors, struct rpc_span set)
{
    struct rpc_span value;
    uint32_t field;
    int r = 0;

    while (r == 0 && rpc_span_next(&set, &field, &value)) {
        if (field == SET_FILE)
            r = add_file(descriptors, value);
    }
    if (r == 0 && set.size > 0)
        r = -EINVAL;
    if (r == 0 && descriptors->symbol_count > 0)
        qsort(descriptors->symbols, descriptors->symbol_count, sizeof(*descriptors->symbols),
              compare_symbols);
    return r;
}

int rpc_descriptors_new(const uint8_t *data, size_t size, struct rpc_descriptors **ret_descriptors,
                        struct cr_err *err)
{
    struct rpc_descriptors *descriptors = calloc(1, sizeof(*descriptors));
    int r;

    if (!descriptors)
        return cr_err_set(err, ENOMEM, "out of memory for the descriptors");
    r = add_set(descriptors, (struct rpc_span){data, size});
    if (r < 0) {
        (void)rpc_descriptors_free(descriptors);
        return cr_err_sys(err, -r, "index the descriptor set");
    }
    *ret_descriptors = descriptors;
    return 0;
}

struct rpc_descriptors *rpc_descriptors_free(struct rpc_descriptors *descriptors)
{
    if (!descriptors)
        return NULL;
    for (size_t i = 0; i < descriptors->symbol_count; i++)
        free(descriptors->symbols[i].name);
    free(descriptors->symbols);
    free(descriptors);
    return NULL;
}

static int find_file(const struct rpc_descriptors *descriptors, const void *name, size_t size)
{
    for (size_t i = 0; i < descriptors->file_count; i++) {
        struct rpc_span found = rpc_span_get(descriptors->files[i], ANY_NAME);

        if (found.size == size && size > 0 && memcmp(found.data, name, size) == 0)
            return (int)i;
    }
    return -ENOENT;
}

int rpc_descriptors_find_file(const struct rpc_descriptors *descriptors, const char *name)
{
    return find_file(descriptors, name, strlen(name));
}

static const struct symbol *find_symbol(const struct rpc_descriptors *descriptors, const char *name)
{
    struct symbol key = {.name = cr_unconst(name)};

    if (descriptors->symbol_count == 0)
        return NULL;
    return bsearch(&key, descriptors->symbols, descriptors->symbol_count, sizeof(key),
                   compare_symbols);
}

int rpc_descriptors_find_symbol(const struct rpc_descriptors *descriptors, const char *symbol)
{
    const struct symbol *found = find_symbol(descriptors, symbol);

    return found ? found->file : -ENOENT;
}

int rpc_descriptors_find_message(const struct rpc_descriptors *descriptors, const char *name)
{
    const struct symbol *found = find_symbol(descriptors, name);

    return found && found->is_message ? found->file : -ENOENT;
}

/* Breadth first over a list that holds each file once, so import cycles cannot harm. */
size_t rpc_descriptors_closure(const struct rpc_descriptors *descriptors, int file,
                               struct rpc_descriptors_file ret_files[RPC_DESCRIPTORS_FILES_MAX])
{
    bool is_listed[RPC_DESCRIPTORS_FILES_MAX] = {false};
    size_t count = 0;

    is_listed[file] = true;
    ret_files[count++] =
        (struct rpc_descriptors_file){descriptors->files[file].data, descriptors->files[file].size};
    for (size_t i = 0; i < count; i++) {
        struct rpc_span rest = {ret_files[i].data, ret_files[i].size};
        struct rpc_span value;
        uint32_t field;

        while (rpc_span_next(&rest, &field, &value)) {
            int found =
                field == FILE_DEPENDENCY ? find_file(descriptors, value.data, value.size) : -ENOENT;

            if (found < 0 || is_listed[found])
                continue;
            is_listed[found] = true;
            ret_files[count++] = (struct rpc_descriptors_file){descriptors->files[found].data,
                                                               descriptors->files[found].size};
        }
    }
    return count;
}
