/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* How full the writable folders of a box are, together; each is a tmpfs of its own. */
struct sbx_folders {
    uint64_t bytes;
    uint64_t inodes;
    bool is_full; /* one of them, of bytes or of inodes */
    bool is_out_of_inodes;
};

/* Adds the file system of `fd`; -1, or one that does not tell, adds nothing. */
void sbx_folders_add(struct sbx_folders *folders, int fd);
