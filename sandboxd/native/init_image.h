/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

struct cr_err;

/*
 * Copies the sandbox-init binary (`path`; NULL: the one beside our own) into a
 * small read-only tmpfs that is attached nowhere. So every box may execute it
 * whatever the mode of the file, the folders above it or the mount that it
 * lies on, a rebuild does not change it under our feet, and no box holds a
 * file of the host.
 *
 * On success *ret_fd is an O_PATH fd for execveat(2), owned by the caller.
 */
int sbx_init_image_load(const char *path, int *ret_fd, struct cr_err *err);
