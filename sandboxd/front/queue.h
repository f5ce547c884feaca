/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Who runs next: a bounded queue, first in first out for each caller, and
 * round robin between callers. Intrusive, not thread-safe, no allocation.
 */
struct sbx_queue_entry {
    struct sbx_queue_entry *next;
    const char *caller; /* borrowed: outlives the entry's stay in the queue */
    uint64_t turn;
    bool is_queued;
};

struct sbx_queue {
    struct sbx_queue_entry *first; /* in order of turn, then of arrival */
    size_t count;
    size_t cap;
    uint64_t turn; /* of the entry popped last */
};

void sbx_queue_init(struct sbx_queue *queue, size_t cap);

/*
 * The entry's turn is the one after its caller's last waiting entry, so that
 * whoever queues a hundred waits behind the first of everybody else. When the
 * queue is full, the entry with the latest turn makes room for one with an
 * earlier turn: it is out of the queue and in *ret_displaced (else NULL), so
 * one caller may fill the queue only as long as nobody else waits.
 * Returns 0 or -ENOSPC.
 */
int sbx_queue_push(struct sbx_queue *queue, struct sbx_queue_entry *entry, const char *caller,
                   struct sbx_queue_entry **ret_displaced);

/* NULL when empty. */
struct sbx_queue_entry *sbx_queue_pop(struct sbx_queue *queue);

/* Safe when the entry is not queued. */
void sbx_queue_remove(struct sbx_queue *queue, struct sbx_queue_entry *entry);
