/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

/*
 * The terminal of a program in a container, whose engine has mounted an
 * instance of devpts there: sandbox-init has both ends, and the program gets
 * the slave as its three streams. The slave is kept: as long as somebody has
 * it, the master does not report an end.
 */
struct sbx_stream_terminal {
    int master_fd; /* non-blocking; -1: there is no terminal */
    int slave_fd;
};

#define SBX_STREAM_TERMINAL_INIT                                                                   \
    {                                                                                              \
        .master_fd = -1, .slave_fd = -1                                                            \
    }

/* `size`: as of SBX_STREAM_RESIZE. Returns 0 or -errno; what is open is in *terminal either way. */
int sbx_stream_terminal_open(struct sbx_stream_terminal *terminal, uint32_t size);

/* Tells the program, by SIGWINCH, when it differs. */
void sbx_stream_terminal_resize(const struct sbx_stream_terminal *terminal, uint32_t size);
