/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/backend/folders.h"

#include <sys/vfs.h>

/* The root of a file system is an inode too; one without a limit of inodes counts none. */
void sbx_folders_add(struct sbx_folders *folders, int fd)
{
    struct statfs stat;

    if (fd < 0 || fstatfs(fd, &stat) < 0)
        return;
    folders->bytes += (stat.f_blocks - stat.f_bfree) * (uint64_t)stat.f_bsize;
    if (stat.f_files > stat.f_ffree)
        folders->inodes += stat.f_files - stat.f_ffree - 1;
    folders->is_out_of_inodes =
        folders->is_out_of_inodes || (stat.f_files > 0 && stat.f_ffree == 0);
    folders->is_full = folders->is_full || folders->is_out_of_inodes || stat.f_bfree == 0;
}
