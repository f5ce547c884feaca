/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

struct cr_buf;

/* Archives of the ustar format (POSIX.1-1988), as the engine takes a build context. Pure. */

/* Adds a regular file; `name` is at most 99 bytes. Returns 0 or -errno. */
int sbx_tar_add(struct cr_buf *tar, const char *name, unsigned int mode, const void *data,
                size_t size);

/* Two empty blocks. */
int sbx_tar_end(struct cr_buf *tar);
