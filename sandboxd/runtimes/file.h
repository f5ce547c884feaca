/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "sandboxd/runtimes/table.h"

#include <stddef.h>

struct cr_err;

/* What a runtime file ends in, and its bounds. */
#define SBX_RUNTIME_FILE_SUFFIX ".runtime"
#define SBX_RUNTIME_FILE_MAX (16U << 10)
#define SBX_RUNTIME_LINE_MAX 1024U
#define SBX_RUNTIME_NAME_MAX 32U
#define SBX_RUNTIME_LIST_MAX 64U /* lines of argv, and of env */

/*
 * Reads one runtime file: lines of `key = value`, blank lines, and lines that
 * begin with '#'. Pure and bounded; docs/runtimes.md has the keys. An error
 * names `file`, the line, what is wrong there, and what would be right.
 * Returns 0, -EINVAL or -ENOMEM; the runtime is the caller's, for
 * sbx_runtime_done().
 */
int sbx_runtime_file_parse(const char *file, const char *text, size_t size,
                           struct sbx_runtime *ret_runtime, struct cr_err *err);

/* Frees what sbx_runtime_file_parse() gave. Safe to repeat. */
void sbx_runtime_done(struct sbx_runtime *runtime);
