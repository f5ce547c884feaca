/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "sandboxd/wire/msg.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The runtimes that are built in. Front and backend link the same table; the
 * wire carries an index into it, never a path.
 */
enum sbx_rootfs {
    SBX_ROOTFS_HOST_USR, /* the host's own /usr, read-only */
};

struct sbx_runtime {
    const char *name;
    const char *description;
    const char *entry_file;   /* `code` is written here below /workspace; NULL: code is refused */
    const char *const *argv;  /* NULL-terminated; the first is absolute */
    const char *version_path; /* binary that must exist for the runtime to be offered */
    const char *report_file;  /* JUnit XML below /workspace to collect and parse; NULL: none */
    bool needs_files;         /* refuses a request without files and without code */
    enum sbx_rootfs rootfs;
};

const struct sbx_runtime *sbx_runtimes(size_t *ret_count);

/* Returns the index, or -ENOENT. */
int sbx_runtime_find(const char *name);

/* FNV-1a over names and argv: tells a front and a backend of different builds apart. */
uint64_t sbx_runtimes_digest(void);

/* The defaults of design: what a request gets for a limit of 0, and the built-in maxima. */
extern const struct sbx_limits sbx_default_limits;
extern const struct sbx_limits sbx_maximum_limits;
