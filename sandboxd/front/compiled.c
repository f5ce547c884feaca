/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/front/compiled.h"

#include "common/auto.h"
#include "common/buf.h"
#include "crisol/sandbox/v1/sandbox.pb-c.h"
#include "sandboxd/front/collect.h"
#include "sandboxd/runtimes/table.h"
#include "sandboxd/wire/glob.h"
#include "sandboxd/wire/payload.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define STATUS_OK ((uint32_t)CRISOL__SANDBOX__V1__COLLECT_STATUS__COLLECT_STATUS_OK)

/* A path, and the file of it where that is needed. Borrowed. */
struct entry {
    const char *path;
    size_t size;
    const struct cr_buf *data;
};

/* '/' comes before every other byte, so that a folder stands right before what is in it. */
static int rank(char byte)
{
    return byte == '/' ? 0 : (unsigned char)byte + 1;
}

static int compare(const void *left, const void *right)
{
    const struct entry *a = left;
    const struct entry *b = right;

    for (size_t i = 0; i < a->size && i < b->size; i++) {
        if (a->path[i] != b->path[i])
            return rank(a->path[i]) - rank(b->path[i]);
    }
    return (a->size > b->size) - (a->size < b->size);
}

/* `a` comes before `b` or is the same. */
static bool is_clash(const struct entry *a, const struct entry *b)
{
    return memcmp(a->path, b->path, a->size < b->size ? a->size : b->size) == 0 &&
           (a->size == b->size || (a->size < b->size && b->path[a->size] == '/'));
}

static size_t count_matches(const struct sbx_collected *files, size_t count)
{
    size_t sum = 0;

    for (size_t i = 0; i < count; i++)
        sum += files[i].match_count;
    return sum;
}

/* Those that were read whole, in order. Returns how many. */
static size_t list_matches(const struct sbx_collected *files, size_t count, struct entry *entries)
{
    size_t found = 0;

    for (size_t i = 0; i < count; i++) {
        for (size_t j = 0; j < files[i].match_count; j++) {
            const struct sbx_match *match = &files[i].matches[j];

            if (match->status == STATUS_OK)
                entries[found++] = (struct entry){match->path, strlen(match->path), &match->data};
        }
    }
    qsort(entries, found, sizeof(*entries), compare);
    return found;
}

int sbx_compiled_pack(const struct sbx_collected *files, size_t count, struct cr_buf *ret_bytes)
{
    CR_AUTO_FREE struct entry *entries = NULL;
    size_t found;
    int r = sbx_payload_begin(ret_bytes);

    if (r < 0)
        return r;
    entries = calloc(count_matches(files, count) + 1, sizeof(*entries));
    if (!entries)
        return -ENOMEM;
    found = list_matches(files, count, entries);
    for (size_t i = 0; r == 0 && i < found; i++) {
        if (i > 0 && compare(&entries[i - 1], &entries[i]) == 0)
            continue; /* two entries of compile.output stand for it */
        r = sbx_payload_add(ret_bytes, SBX_PAYLOAD_FILE, 0, SBX_COMPILED_MODE, entries[i].path,
                            entries[i].size, entries[i].data->data, entries[i].data->size);
    }
    if (r == 0)
        sbx_payload_end(ret_bytes);
    return r;
}

static bool is_output(const struct sbx_runtime *runtime, const struct entry *entry)
{
    for (size_t i = 0; runtime->compile_output[i]; i++) {
        const char *pattern = runtime->compile_output[i];

        if (sbx_glob_matches(pattern, strlen(pattern), entry->path, entry->size))
            return true;
    }
    return false;
}

int sbx_compiled_check(const void *data, size_t size, const struct sbx_runtime *runtime)
{
    struct sbx_payload_reader reader;
    struct sbx_payload_item item;
    struct entry last = {.path = NULL};
    int r = sbx_payload_open(&reader, data, size);

    if (r < 0)
        return r;
    while ((r = sbx_payload_next(&reader, &item)) == 1) {
        const struct entry entry = {.path = item.name, .size = item.record.name_size};

        if (item.record.kind != SBX_PAYLOAD_FILE || item.record.flags != 0 ||
            item.record.mode != SBX_COMPILED_MODE || !is_output(runtime, &entry) ||
            (last.path && (compare(&last, &entry) >= 0 || is_clash(&last, &entry))))
            return -EPROTO;
        last = entry;
    }
    return r < 0 || !last.path ? -EPROTO : 0;
}

/* The paths of the files of a payload, behind the `count` that are there. */
static int list_files(struct sbx_payload_reader reader, struct entry *entries, size_t *count)
{
    struct sbx_payload_item item;
    int r;

    while ((r = sbx_payload_next(&reader, &item)) == 1) {
        if (item.record.kind == SBX_PAYLOAD_FILE)
            entries[(*count)++] = (struct entry){.path = item.name, .size = item.record.name_size};
    }
    return r;
}

static int check_clashes(const struct sbx_payload_reader *compiled, struct cr_buf *payload)
{
    CR_AUTO_FREE struct entry *entries = NULL;
    struct sbx_payload_reader reader;
    size_t count = 0;
    int r;

    sbx_payload_end(payload); /* so that it can be read as it is by now */
    r = sbx_payload_open(&reader, payload->data, payload->size);
    if (r < 0)
        return r;
    entries = calloc((size_t)reader.left + compiled->left + 1, sizeof(*entries));
    if (!entries)
        return -ENOMEM;
    r = list_files(reader, entries, &count);
    if (r == 0)
        r = list_files(*compiled, entries, &count);
    qsort(entries, count, sizeof(*entries), compare);
    for (size_t i = 1; r == 0 && i < count; i++) {
        if (is_clash(&entries[i - 1], &entries[i]))
            r = -EEXIST;
    }
    return r;
}

int sbx_compiled_add(const void *data, size_t size, struct cr_buf *payload)
{
    struct sbx_payload_reader reader;
    struct sbx_payload_item item;
    int r = sbx_payload_open(&reader, data, size);

    if (r == 0)
        r = check_clashes(&reader, payload);
    while (r == 0 && (r = sbx_payload_next(&reader, &item)) == 1)
        r = sbx_payload_add(payload, SBX_PAYLOAD_FILE, item.record.flags, item.record.mode,
                            item.name, item.record.name_size, item.data,
                            (size_t)item.record.data_size);
    return r;
}
