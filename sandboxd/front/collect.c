/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/front/collect.h"

#include "crisol/sandbox/v1/sandbox.pb-c.h"
#include "sandboxd/wire/glob.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define STATUS(name) ((uint32_t)CRISOL__SANDBOX__V1__COLLECT_STATUS__COLLECT_STATUS_##name)

int sbx_collector_init(struct sbx_collector *collector, size_t count, size_t total_bytes)
{
    *collector = (struct sbx_collector){.room = total_bytes};
    if (count == 0)
        return 0;
    collector->files = calloc(count, sizeof(*collector->files));
    if (!collector->files)
        return -ENOMEM;
    collector->count = count;
    for (size_t i = 0; i < count; i++)
        collector->files[i].status = STATUS(UNREADABLE);
    return 0;
}

static void file_done(struct sbx_collected *file)
{
    for (size_t i = 0; i < file->match_count; i++) {
        free(file->matches[i].path);
        cr_buf_done(&file->matches[i].data);
    }
    free(file->matches);
    free(file->path);
    cr_buf_done(&file->data);
}

void sbx_collector_done(struct sbx_collector *collector)
{
    for (size_t i = 0; i < collector->count; i++)
        file_done(&collector->files[i]);
    free(collector->files);
    *collector = (struct sbx_collector){0};
}

/* A path, or one of the files of a pattern. */
struct target {
    uint32_t *status;
    struct cr_buf *data;
};

static struct target current(struct sbx_collected *file)
{
    struct sbx_match *match;

    if (file->max_files == 0)
        return (struct target){&file->status, &file->data};
    match = &file->matches[file->match_count - 1];
    return (struct target){&match->status, &match->data};
}

static void next_header(struct sbx_collector *collector)
{
    collector->head_size = 0;
    collector->name_size = 0;
}

static void next_record(struct sbx_collector *collector)
{
    collector->at++;
    next_header(collector);
}

static void end_file(struct sbx_collector *collector)
{
    if (collector->files[collector->at].max_files == 0)
        next_record(collector);
    else
        next_header(collector);
}

/* The header and, for a file of a pattern, its path are there. */
static void begin_file(struct sbx_collector *collector)
{
    const struct sbx_collect_header *head = &collector->head;
    struct target target = current(&collector->files[collector->at]);
    bool is_ok = head->status == STATUS(OK);

    collector->left = head->size;
    collector->is_too_much = head->size > collector->room;
    if (collector->is_too_much)
        *target.status = STATUS(TOO_LARGE);
    else
        *target.status = is_ok && head->size > 0 ? STATUS(UNREADABLE) : head->status;
    cr_buf_init(target.data, head->size);
    if (head->size == 0)
        end_file(collector);
}

static bool is_plausible(const struct sbx_collected *file, const struct sbx_collect_header *head)
{
    bool is_ok = head->status == STATUS(OK);

    if (head->status < STATUS(OK) || (!is_ok && head->size > 0) || head->size > file->max_bytes)
        return false;
    if (file->max_files == 0 || head->name_size > 0)
        return head->status <= STATUS(UNREADABLE) && head->name_size <= SBX_PAYLOAD_NAME_MAX &&
               (file->max_files > 0 || head->name_size == 0);
    return head->size == 0 && (is_ok ? file->match_count > 0 : true) &&
           head->status <= STATUS(TOO_MANY);
}

/* A whole header is there. */
static void take_header(struct sbx_collector *collector)
{
    struct sbx_collected *file = &collector->files[collector->at];

    collector->is_broken = !is_plausible(file, &collector->head);
    if (collector->is_broken)
        return;
    if (file->max_files == 0) {
        begin_file(collector);
    } else if (collector->head.name_size == 0) { /* the last one of a pattern */
        file->status = collector->head.status;
        next_record(collector);
    }
}

/* The collector gives each path once, in order, and only what the pattern stands for. */
static bool is_name_right(const struct sbx_collector *collector, const struct sbx_collected *file)
{
    const struct sbx_match *last =
        file->match_count > 0 ? &file->matches[file->match_count - 1] : NULL;

    return file->match_count < file->max_files &&
           sbx_glob_may_give(collector->name, collector->name_size) &&
           sbx_glob_matches(file->path, strlen(file->path), collector->name,
                            collector->name_size) &&
           (!last || strcmp(last->path, collector->name) < 0);
}

/* A whole path is there. */
static void take_name(struct sbx_collector *collector)
{
    struct sbx_collected *file = &collector->files[collector->at];
    struct sbx_match *match;

    collector->name[collector->name_size] = '\0';
    collector->is_broken = !is_name_right(collector, file);
    if (collector->is_broken)
        return;
    if (!file->matches)
        file->matches = calloc(file->max_files, sizeof(*file->matches));
    match = file->matches ? &file->matches[file->match_count] : NULL;
    if (match)
        match->path = strdup(collector->name);
    if (!match || !match->path) {
        collector->is_broken = true; /* out of memory: the rest stays UNREADABLE */
        return;
    }
    file->match_count++;
    begin_file(collector);
}

static size_t feed_header(struct sbx_collector *collector, const uint8_t *data, size_t size)
{
    size_t want = sizeof(collector->head) - collector->head_size;
    size_t step = size < want ? size : want;

    memcpy((uint8_t *)&collector->head + collector->head_size, data, step);
    collector->head_size += step;
    if (collector->head_size == sizeof(collector->head))
        take_header(collector);
    return step;
}

static size_t feed_name(struct sbx_collector *collector, const uint8_t *data, size_t size)
{
    size_t want = collector->head.name_size - collector->name_size;
    size_t step = size < want ? size : want;

    memcpy(collector->name + collector->name_size, data, step);
    collector->name_size += step;
    if (collector->name_size == collector->head.name_size)
        take_name(collector);
    return step;
}

static size_t feed_data(struct sbx_collector *collector, const uint8_t *data, size_t size)
{
    struct target target = current(&collector->files[collector->at]);
    size_t step = size < collector->left ? size : collector->left;

    if (!collector->is_too_much && cr_buf_add(target.data, data, step) < 0) {
        cr_buf_done(target.data);
        collector->is_too_much = true; /* out of memory: the file stays UNREADABLE */
    }
    collector->left -= step;
    if (collector->left == 0) {
        if (!collector->is_too_much) {
            *target.status = STATUS(OK);
            collector->room -= target.data->size;
        }
        end_file(collector);
    }
    return step;
}

void sbx_collector_feed(struct sbx_collector *collector, const void *data, size_t size)
{
    const uint8_t *at = data;

    while (size > 0 && collector->at < collector->count && !collector->is_broken) {
        size_t step;

        if (collector->head_size < sizeof(collector->head))
            step = feed_header(collector, at, size);
        else if (collector->name_size < collector->head.name_size)
            step = feed_name(collector, at, size);
        else
            step = feed_data(collector, at, size);
        at += step;
        size -= step;
    }
}

bool sbx_collected_is_whole(const struct sbx_collected *file)
{
    for (size_t i = 0; i < file->match_count; i++) {
        if (file->matches[i].status != STATUS(OK))
            return false;
    }
    return file->status == STATUS(OK);
}

bool sbx_collector_has_failed(const struct sbx_collector *collector)
{
    for (size_t i = 0; i < collector->count; i++) {
        if (collector->files[i].is_required && !sbx_collected_is_whole(&collector->files[i]))
            return true;
    }
    return false;
}
