/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

#include <sys/stat.h>
#include <sys/types.h>

struct cr_err;

/*
 * Reads the runtimes that are registered in the state folder (registered.h)
 * and every *.runtime file of the folder --runtimes-dir, either of which may be
 * NULL or empty, and refuses what is wrong: in a file
 * (sandboxd/runtimes/file.h), and a folder or a file that somebody else than
 * root could change. Returns a sealed bundle (sandboxd/runtimes/bundle.h) for
 * the children, which is the caller's, or a negative errno with a text that
 * names the file.
 */
int sbx_runtime_files_open(const char *path, const char *state_dir, struct cr_err *err);

/*
 * Reads the regular file `name`, which must be root's and writable by root
 * only, into `text`: less than `size` bytes, without a NUL behind them. No
 * link is followed. Returns how many, or a negative errno.
 */
ssize_t sbx_runtime_files_read(int folder_fd, const char *name, char *text, size_t size,
                               struct cr_err *err);

/* Who can write it decides what root runs: -EPERM when that is not root alone. */
int sbx_runtime_files_check_owner(const struct stat *info, const char *name, struct cr_err *err);
