/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

/*
 * One short message with file descriptors on a SOCK_SEQPACKET socket, between
 * processes that agree on its exact size. Makes system calls only, so both may
 * be used between fork and exec.
 */
#define SBX_FDS_MAX 16U

/* Sends `size` bytes with `count` fds (borrowed). Returns 0, -EPIPE or another -errno. */
int sbx_fds_send(int socket_fd, const void *data, size_t size, const int *fds, size_t count);

/*
 * Receives exactly `size` bytes with at most `count` fds, CLOEXEC and owned by
 * the caller (ret_fds may be NULL for none). Anything else closes what came and is -EPROTO. `flags`
 * as of recvmsg(2). Returns how many fds came, -EAGAIN, -EPIPE at the end of the connection, or
 * another -errno.
 */
int sbx_fds_receive(int socket_fd, void *ret_data, size_t size, int *ret_fds, size_t count,
                    int flags);
