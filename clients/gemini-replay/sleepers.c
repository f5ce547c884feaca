/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/gemini-replay/sleepers.h"

#include <errno.h>
#include <stdlib.h>

#define FIRST_ROOM 64

static int make_room(struct replay_sleepers *sleepers)
{
    size_t room = sleepers->room ? 2 * sleepers->room : FIRST_ROOM;
    struct replay_sleeper *items;

    if (sleepers->count < sleepers->room)
        return 0;
    items = reallocarray(sleepers->items, room, sizeof(*items));
    if (!items)
        return -ENOMEM;
    sleepers->items = items;
    sleepers->room = room;
    return 0;
}

int replay_sleepers_add(struct replay_sleepers *sleepers, const struct replay_sleeper *sleeper,
                        size_t most)
{
    struct replay_sleeper *items;
    size_t at;

    if (sleepers->count >= most)
        return -ENOSPC;
    if (make_room(sleepers) < 0)
        return -ENOMEM;
    items = sleepers->items;
    at = sleepers->count++;
    for (; at > 0 && items[(at - 1) / 2].due_ns > sleeper->due_ns; at = (at - 1) / 2)
        items[at] = items[(at - 1) / 2];
    items[at] = *sleeper;
    return 0;
}

/* The smaller child of `at`; `count` when it has none. */
static size_t next_child(const struct replay_sleepers *sleepers, size_t at)
{
    size_t left = 2 * at + 1;

    if (left >= sleepers->count)
        return sleepers->count;
    if (left + 1 < sleepers->count &&
        sleepers->items[left + 1].due_ns < sleepers->items[left].due_ns)
        return left + 1;
    return left;
}

struct replay_sleeper replay_sleepers_take(struct replay_sleepers *sleepers)
{
    struct replay_sleeper *items = sleepers->items;
    struct replay_sleeper first = items[0];
    struct replay_sleeper last = items[--sleepers->count];
    size_t at = 0;

    for (;;) {
        size_t child = next_child(sleepers, at);

        if (child >= sleepers->count || items[child].due_ns >= last.due_ns)
            break;
        items[at] = items[child];
        at = child;
    }
    items[at] = last;
    return first;
}

int64_t replay_sleepers_due_ns(const struct replay_sleepers *sleepers)
{
    return sleepers->count > 0 ? sleepers->items[0].due_ns : INT64_MAX;
}

void replay_sleepers_done(struct replay_sleepers *sleepers)
{
    free(sleepers->items);
    *sleepers = (struct replay_sleepers){0};
}
