/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "sandboxd/runtimes/table.h"

#include <stdint.h>

struct cr_err;

/*
 * A root file system as a tree of files. All of this works through
 * descriptors and follows no link: the tree holds what somebody else packed.
 */

/*
 * Makes it what a sandbox may have: root's, without setuid, setgid and sticky
 * programs, device nodes, pipes and sockets, writable by root only; and
 * without the folders that no sandbox has (var, tmp, run, …) and what only the
 * building left. Returns 0 or -errno.
 */
int sbx_tree_clean(int root_fd, struct cr_err *err);

/*
 * sha256 over types, modes, paths, contents and targets of links in the order
 * of the bytes of the names: not over times and owners. Returns 0 or -errno.
 */
int sbx_tree_digest(int root_fd, char ret_digest[SBX_ROOT_DIGEST_SIZE], struct cr_err *err);

/* Bytes of all regular files; of those up to the first entry that cannot be looked at. */
uint64_t sbx_tree_bytes(int root_fd);

/* Removes `name`, in the folder and no path, with everything below it; 0 too when it is not there.
 * -EXDEV where something is mounted below it, which stays; what comes behind that stays, too. */
int sbx_tree_remove(int folder_fd, const char *name);

/*
 * Lays the layer `layer_fd` of an image over the tree: moves its entries, and
 * takes away what its whiteouts (.wh.NAME, .wh..wh..opq) name. Both are on one
 * file system. Returns 0 or -errno.
 */
int sbx_tree_lay_over(int root_fd, int layer_fd);
