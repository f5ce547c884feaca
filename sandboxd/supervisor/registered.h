/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

struct cr_buf;
struct cr_err;
struct sbx_runtime_table;

/*
 * Runtimes that `sandboxd runtime build` registered, in the folder "runtimes"
 * of the state folder. Each has a folder of its name with
 *
 *     file     the runtime file
 *     digest   sha256 of its root file system, 64 hexadecimal digits and a newline
 *     root     the root file system
 *
 * Names that begin with '.' are builds that are not finished.
 */
#define SBX_REGISTERED_FOLDER "runtimes"
#define SBX_REGISTERED_FILE "file"
#define SBX_REGISTERED_DIGEST "digest"
#define SBX_REGISTERED_ROOT "root"

/*
 * Adds all of them to the table and to the bundle, sorted by name; none when
 * there is no such folder. The folder and everything in it but the root file
 * systems must be root's and writable by root only. Returns 0 or -errno; the
 * error names the runtime.
 */
int sbx_registered_take(const char *state_dir, struct sbx_runtime_table *table,
                        struct cr_buf *bundle, struct cr_err *err);
