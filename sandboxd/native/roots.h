/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "sandboxd/runtimes/table.h"

#include <stdint.h>

struct cr_err;

/*
 * Root file systems of single runtimes, which `sandboxd runtime build` made:
 * for each a mount namespace that holds nothing else, as rootfs.h says. A box
 * of such a runtime enters it and makes a copy of its own.
 */
struct sbx_roots {
    int fds[SBX_RUNTIMES_MAX];   /* by runtime; -1: it has the common one */
    int locks[SBX_RUNTIMES_MAX]; /* on the folders, so that nobody removes one that is used */
    uint32_t found; /* bits: those whose interpreter, and whatever else they need, is in there */
};

/* Nothing open. */
void sbx_roots_init(struct sbx_roots *roots);

/*
 * Opens those of the table of this process. `folder` (may be NULL or empty
 * when there are none) is where they are registered. A child makes each,
 * before the caller has moved into the common one. On failure, which names the
 * runtime, what was opened stays for sbx_roots_close(). Returns 0 or -errno.
 */
int sbx_roots_open(const char *folder, struct sbx_roots *roots, struct cr_err *err);

void sbx_roots_close(struct sbx_roots *roots);

/* True when all that the runtime needs is below the caller's own root. */
bool sbx_roots_is_here(const struct sbx_runtime *runtime);
