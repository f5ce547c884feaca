/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "sandboxd/backend/cgroup.h"
#include "sandboxd/wire/boxctl.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Pid 1 of a container that nobody can look into from outside: its engine is
 * on another host. It reads the counters of the box and collects its files
 * itself, and tells both. The program has no hand on that: it can neither
 * write a counter of the kernel's nor look into pid 1. Still it is read in the
 * program's own box, which is why results say INFERRED.
 */
#define SBX_INSIDE_FOLDERS 3

struct sbx_inside {
    bool is_on;
    bool has_group;
    struct sbx_cgroup_host host;
    struct sbx_cgroup group;
    int folder_fds[SBX_INSIDE_FOLDERS]; /* /workspace first */
    uint64_t told[SBX_COUNTER_COUNT];
    int64_t look_ns;
    uint32_t looks;
};

/* Finds what can be read; what is not there is not told. */
void sbx_inside_open(struct sbx_inside *inside);

/* Sends a COUNTER for each that has changed. */
void sbx_inside_tell(struct sbx_inside *inside, void (*send)(struct sbx_init_msg msg));

/*
 * To be called that often while a program runs: the kernel tells nobody in
 * here that it killed for memory, so that is looked for; all else is told less
 * often.
 */
#define SBX_INSIDE_LOOK_MS 20
void sbx_inside_look(struct sbx_inside *inside, void (*send)(struct sbx_init_msg msg));

/*
 * When everything else is dead: collects what the payload asks for. `send`
 * gets the pieces, and may be slow. With `must_find_size` looks for a file of
 * the size limit. Returns the `detail` of COLLECTED.
 */
uint32_t sbx_inside_collect(const struct sbx_inside *inside, int payload_fd, bool must_find_size,
                            void (*send)(void *data, size_t size));
