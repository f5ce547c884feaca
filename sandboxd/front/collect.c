/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/front/collect.h"

#include "crisol/sandbox/v1/sandbox.pb-c.h"

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

void sbx_collector_done(struct sbx_collector *collector)
{
    for (size_t i = 0; i < collector->count; i++)
        cr_buf_done(&collector->files[i].data);
    free(collector->files);
    *collector = (struct sbx_collector){0};
}

static void next_file(struct sbx_collector *collector)
{
    collector->at++;
    collector->head_size = 0;
}

/* A whole header is there. */
static void begin_file(struct sbx_collector *collector)
{
    struct sbx_collected *file = &collector->files[collector->at];
    const struct sbx_collect_header *head = &collector->head;
    bool is_ok = head->status == STATUS(OK);

    if (head->status < STATUS(OK) || head->status > STATUS(UNREADABLE) ||
        (!is_ok && head->size > 0) || head->size > file->max_bytes) {
        collector->is_broken = true;
        return;
    }
    collector->left = head->size;
    collector->is_too_much = head->size > collector->room;
    if (collector->is_too_much)
        file->status = STATUS(TOO_LARGE);
    else
        file->status = is_ok && head->size > 0 ? STATUS(UNREADABLE) : head->status;
    cr_buf_init(&file->data, head->size);
    if (head->size == 0)
        next_file(collector);
}

static size_t feed_header(struct sbx_collector *collector, const uint8_t *data, size_t size)
{
    size_t want = sizeof(collector->head) - collector->head_size;
    size_t step = size < want ? size : want;

    memcpy((uint8_t *)&collector->head + collector->head_size, data, step);
    collector->head_size += step;
    if (collector->head_size == sizeof(collector->head))
        begin_file(collector);
    return step;
}

static size_t feed_data(struct sbx_collector *collector, const uint8_t *data, size_t size)
{
    struct sbx_collected *file = &collector->files[collector->at];
    size_t step = size < collector->left ? size : collector->left;

    if (!collector->is_too_much && cr_buf_add(&file->data, data, step) < 0) {
        cr_buf_done(&file->data);
        collector->is_too_much = true; /* out of memory: the file stays UNREADABLE */
    }
    collector->left -= step;
    if (collector->left == 0) {
        if (!collector->is_too_much) {
            file->status = STATUS(OK);
            collector->room -= file->data.size;
        }
        next_file(collector);
    }
    return step;
}

void sbx_collector_feed(struct sbx_collector *collector, const void *data, size_t size)
{
    const uint8_t *at = data;

    while (size > 0 && collector->at < collector->count && !collector->is_broken) {
        size_t step = collector->head_size < sizeof(collector->head)
                          ? feed_header(collector, at, size)
                          : feed_data(collector, at, size);

        at += step;
        size -= step;
    }
}

bool sbx_collector_has_failed(const struct sbx_collector *collector)
{
    for (size_t i = 0; i < collector->count; i++) {
        if (collector->files[i].is_required && collector->files[i].status != STATUS(OK))
            return true;
    }
    return false;
}
