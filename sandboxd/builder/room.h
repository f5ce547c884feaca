/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct cr_err;

/*
 * How much of its file system a build may take: three quarters of what is free
 * when it begins. An archive of kilobytes can hold a file of any size, and the
 * file system is the service's own.
 */
struct sbx_room {
    uint64_t most_bytes;  /* of one file and of all together, holes counted */
    uint64_t least_bytes; /* that stay free */
    uint64_t least_files; /* likewise; 0: this file system counts none */
};

/* Of the file system of `folder`. Returns 0 or -errno. */
int sbx_room_measure(const char *folder, struct sbx_room *ret_room, struct cr_err *err);

/* True when less is left of it. */
bool sbx_room_is_used_up(const struct sbx_room *room, const char *folder);
