/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/init/stream_terminal.h"

#include <errno.h>
#include <fcntl.h>

#include <sys/ioctl.h>

#define PTMX "/dev/ptmx"

int sbx_stream_terminal_open(struct sbx_stream_terminal *terminal, uint32_t size)
{
    const int flags = O_RDWR | O_NOCTTY | O_CLOEXEC;
    int unlock = 0;

    terminal->master_fd = openat(AT_FDCWD, PTMX, flags | O_NONBLOCK);
    if (terminal->master_fd < 0 || ioctl(terminal->master_fd, TIOCSPTLCK, &unlock) < 0)
        return -errno;
    /* Not by its name, which is the image's to say. */
    terminal->slave_fd = ioctl(terminal->master_fd, TIOCGPTPEER, flags);
    if (terminal->slave_fd < 0)
        return -errno;
    sbx_stream_terminal_resize(terminal, size);
    return 0;
}

void sbx_stream_terminal_resize(const struct sbx_stream_terminal *terminal, uint32_t size)
{
    const struct winsize wanted = {.ws_col = (unsigned short)(size >> 16),
                                   .ws_row = (unsigned short)(size & UINT16_MAX)};

    if (terminal->master_fd >= 0)
        (void)ioctl(terminal->master_fd, TIOCSWINSZ, &wanted);
}
