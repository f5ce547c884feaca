/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "sandboxd/wire/msg.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Below /workspace; names that begin with ".crisol" are refused in requests. */
#define SBX_PYTEST_REPORT ".crisol-report.xml"

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
    const char *entry_file;  /* `code` is written here below /workspace; NULL: code is refused */
    const char *const *argv; /* NULL-terminated; the first is absolute; args come behind */
    const char *const *environment; /* NULL-terminated NAME=value, beside sbx_environment */
    const char *version_path;       /* binary that must exist for the runtime to be offered */
    const char *report_file; /* JUnit XML below /workspace to collect and parse; NULL: none */
    bool needs_files;        /* refuses a request without files and without code */
    enum sbx_rootfs rootfs;
};

/* Sorted by name. */
const struct sbx_runtime *sbx_runtimes(size_t *ret_count);

/* Returns the index, or -ENOENT. */
int sbx_runtime_find(const char *name);

/* FNV-1a over everything that a run depends on: tells a front and a backend of different builds
 * apart. */
uint64_t sbx_runtimes_digest(void);

/* NAME=value, NULL-terminated: the environment of every program; a request only adds to it. */
extern const char *const sbx_environment[];

/*
 * What a request gets for a limit of 0 (but cpu_time_ms: the wall limit of the same request), and
 * the built-in maxima, which an operator and a backend may lower.
 */
extern const struct sbx_limits sbx_default_limits;
extern const struct sbx_limits sbx_maximum_limits;
