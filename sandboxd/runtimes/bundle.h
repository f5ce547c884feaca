/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "sandboxd/runtimes/file.h"

#include <stddef.h>

struct cr_buf;
struct cr_err;

#define SBX_RUNTIME_FILE_NAME_MAX 64U

/*
 * Runtime files in one piece, as the supervisor hands them to its children:
 * it alone reads the folders, so that all of them have the same table, also
 * after a restart, whatever happens to the files. For each file a
 * struct sbx_bundle_header, its name, and its text.
 */
struct sbx_bundle_header {
    uint32_t name_size;
    uint32_t text_size;
    char root[SBX_ROOT_DIGEST_SIZE]; /* as for sbx_runtime_table_add(); "": none */
};

#define SBX_BUNDLE_MAX                                                                             \
    (SBX_RUNTIMES_MAX *                                                                            \
     (sizeof(struct sbx_bundle_header) + SBX_RUNTIME_FILE_NAME_MAX + SBX_RUNTIME_FILE_MAX))

/* Appends one file. `root`: as for sbx_runtime_table_add(). Returns as cr_buf_add(). */
int sbx_bundle_add(struct cr_buf *bundle, const char *file, const char *text, size_t size,
                   const char *root);

/* Adds every file of a bundle to the table. Pure. Returns 0, -EPROTO when it is no bundle, or as
 * sbx_runtime_table_add(). */
int sbx_bundle_read(const void *data, size_t size, struct sbx_runtime_table *table,
                    struct cr_err *err);
