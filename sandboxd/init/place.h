/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The files of a payload on SBX_INIT_FD_PAYLOAD, put into /workspace by children of pid 1. */

/* All of them. Returns 0 or -errno. */
int sbx_place_files(void);

/*
 * Those that are read-only, in the folder `workspace_fd`: it and their folders are taken from the
 * program. Returns 0 or -errno.
 */
int sbx_place_read_only(int workspace_fd);
