/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "sandboxd/runtimes/table.h"

#include <stdint.h>

struct cr_err;
struct sbx_room;

/* A runtime that is being built. Paths are absolute. */
struct sbx_build {
    const struct sbx_runtime *runtime;
    const char *source_folder; /* of the runtime file: its other files are relative to it */
    const char *folder;  /* of the build, empty, of the same file system as the state folder */
    const char *root;    /* what is made: a folder that does not exist yet */
    int output_fd;       /* what the tools say; borrowed */
    int64_t deadline_ns; /* CLOCK_MONOTONIC */
    const struct sbx_room *room; /* that it may take; borrowed */
};

/*
 * Makes the root file system that the recipe says, cleaned. Fetches packages:
 * never in a sandbox, and only now. Returns 0 or -errno; the error says which
 * step failed.
 */
int sbx_build_root(const struct sbx_build *build, struct cr_err *err);
