/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/front/queue.h"

#include <errno.h>
#include <string.h>

void sbx_queue_init(struct sbx_queue *queue, size_t cap)
{
    *queue = (struct sbx_queue){.cap = cap};
}

/* The turn after the last one that this caller has in the queue. */
static uint64_t next_turn(const struct sbx_queue *queue, const char *caller)
{
    uint64_t turn = queue->turn;

    for (const struct sbx_queue_entry *other = queue->first; other; other = other->next) {
        if (other->turn > turn && strcmp(other->caller, caller) == 0)
            turn = other->turn;
    }
    return turn + 1;
}

/* The entry that would run last; NULL when the queue is empty. */
static struct sbx_queue_entry *last(const struct sbx_queue *queue)
{
    struct sbx_queue_entry *entry = queue->first;

    while (entry && entry->next)
        entry = entry->next;
    return entry;
}

int sbx_queue_push(struct sbx_queue *queue, struct sbx_queue_entry *entry, const char *caller,
                   struct sbx_queue_entry **ret_displaced)
{
    uint64_t turn = next_turn(queue, caller);
    struct sbx_queue_entry **slot = &queue->first;

    *ret_displaced = NULL;
    if (queue->count >= queue->cap) {
        struct sbx_queue_entry *victim = last(queue);

        if (!victim || victim->turn <= turn)
            return -ENOSPC;
        sbx_queue_remove(queue, victim);
        *ret_displaced = victim;
    }
    while (*slot && (*slot)->turn <= turn)
        slot = &(*slot)->next;
    *entry =
        (struct sbx_queue_entry){.next = *slot, .caller = caller, .turn = turn, .is_queued = true};
    *slot = entry;
    queue->count++;
    return 0;
}

struct sbx_queue_entry *sbx_queue_pop(struct sbx_queue *queue)
{
    struct sbx_queue_entry *entry = queue->first;

    if (!entry)
        return NULL;
    queue->turn = entry->turn;
    sbx_queue_remove(queue, entry);
    return entry;
}

void sbx_queue_remove(struct sbx_queue *queue, struct sbx_queue_entry *entry)
{
    struct sbx_queue_entry **slot = &queue->first;

    if (!entry->is_queued)
        return;
    while (*slot != entry)
        slot = &(*slot)->next;
    *slot = entry->next;
    *entry = (struct sbx_queue_entry){0};
    queue->count--;
}
