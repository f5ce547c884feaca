/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

struct cr_buf;

/* Adds all that comes up to the end of the file. Returns 0 or -errno: -ENOSPC when it is more than
 * the buffer may hold. */
int cr_read_all(int fd, struct cr_buf *buf);
