/* SPDX-License-Identifier: Apache-2.0 */
#include "common/read_all.h"

#include "common/buf.h"

#include <errno.h>
#include <unistd.h>

int cr_read_all(int fd, struct cr_buf *buf)
{
    char chunk[16384];

    for (;;) {
        ssize_t n = read(fd, chunk, sizeof(chunk));
        int r;

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? -errno : 0;
        r = cr_buf_add(buf, chunk, (size_t)n);
        if (r < 0)
            return r;
    }
}
