/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "sandboxd/runtimes/file.h"

#include <stddef.h>
#include <stdint.h>

struct cr_err;

/* Internal to the parser of runtime files: file.c has the lines, file_values.c the keys. */

/* Values of a key that may stand again; NULL-terminated. */
struct sbx_file_list {
    const char *items[SBX_RUNTIME_LIST_MAX + 1];
    size_t count;
};

/* What the texts of a runtime point into. */
struct sbx_file_storage {
    struct sbx_file_list argv;
    struct sbx_file_list environment;
    struct sbx_file_list needs;
    struct sbx_file_list version_argv;
    struct sbx_file_list compile;
    struct sbx_file_list compile_output;
    struct sbx_file_list packages;
    struct sbx_file_list smoke_code;
    char name[2 * SBX_RUNTIME_NAME_MAX + 2]; /* NAME:VERSION */
    size_t used;
    char text[SBX_RUNTIME_FILE_MAX + 1]; /* a last line may have no newline */
};

struct sbx_file_parser {
    const char *file; /* borrowed: its name, for errors */
    unsigned int line;
    uint32_t seen;                /* bit per key that stands once */
    uint32_t seen_limits;         /* bit per limit */
    uint32_t seen_compile_limits; /* likewise */
    const char *version;          /* NULL: none */
    struct sbx_file_storage *storage;
    struct sbx_runtime runtime;
    struct cr_err *err;
};

/* Returns -EINVAL, having said file and line. */
int sbx_file_fail(struct sbx_file_parser *parser, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Takes one `key = value`; both are kept by the storage, and the value is not empty. Returns 0 or
 * -EINVAL. */
int sbx_file_take(struct sbx_file_parser *parser, const char *key, const char *value);

/* What can be seen only at the end: keys that are missing, or do not go together. */
int sbx_file_finish(struct sbx_file_parser *parser);
