/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct MHD_Connection;

/* A suspended connection, and when it goes on. */
struct replay_sleeper {
    int64_t due_ns;
    struct MHD_Connection *connection;
    size_t *counter; /* raised by one when it wakes; NULL: none. Lives as long as it sleeps */
};

/* Those that sleep: a binary heap, the next to wake first. Zeroed: empty. */
struct replay_sleepers {
    struct replay_sleeper *items;
    size_t count;
    size_t room;
};

/* Returns 0, -ENOMEM, or -ENOSPC when `most` sleep already. */
int replay_sleepers_add(struct replay_sleepers *sleepers, const struct replay_sleeper *sleeper,
                        size_t most);

/* Takes the next one out. At least one sleeps. */
struct replay_sleeper replay_sleepers_take(struct replay_sleepers *sleepers);

/* When the next one wakes; INT64_MAX when none sleeps. */
int64_t replay_sleepers_due_ns(const struct replay_sleepers *sleepers);

void replay_sleepers_done(struct replay_sleepers *sleepers);
