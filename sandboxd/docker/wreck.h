/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "sandboxd/docker/container.h"

#include <stdbool.h>
#include <stdint.h>

struct sbx_docker;

#define SBX_WRECKS_MAX 128U

/*
 * Containers that are over and have to be removed, off the path of their runs.
 * Each removal has a deadline and is tried again; one that does not go is in
 * quarantine: its id is kept, said once, and no slot waits for it.
 */
struct sbx_wreck {
    char id[SBX_CONTAINER_ID_SIZE];
    uint32_t attempts;
    bool is_asked;    /* a call is in flight */
    int64_t retry_ns; /* of the next call */
};

struct sbx_wreckage {
    struct sbx_wreck wrecks[SBX_WRECKS_MAX];
    uint32_t count;
    uint32_t quarantined;
};

/* True when no further container may be made before others are gone. */
bool sbx_wreckage_is_full(const struct sbx_wreckage *wreckage);

/* Takes a container over, and asks the engine to remove it. */
void sbx_wreckage_add(struct sbx_docker *docker, const char *id);

/* When sbx_wreckage_on_time() wants to be called; INT64_MAX: never. */
int64_t sbx_wreckage_next_ns(const struct sbx_wreckage *wreckage);
void sbx_wreckage_on_time(struct sbx_docker *docker, int64_t now_ns);
