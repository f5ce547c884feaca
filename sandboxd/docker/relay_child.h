/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

struct sbx_limits;

/* The relay's own side: its fds, and what it does once it has no privilege left. */
enum {
    SBX_RELAY_FD_SOCKET = 3,
    SBX_RELAY_FD_PAYLOAD,
    SBX_RELAY_FD_FILTER,
    SBX_RELAY_FD_CONTROL,
    SBX_RELAY_FD_FOLDER,
    SBX_RELAY_FD_COLLECT,
    SBX_RELAY_FD_COUNT,
};

/* Writes the read-only files of the payload, if there are any. Returns 0 or -errno, which the
 * backend was told. Only where there is a folder. */
int sbx_relay_unpack(void);

/* Maps the payload, and the filter where there is one to send, before system calls are filtered.
 * Returns 0 or -errno. */
int sbx_relay_map(bool has_filter);

/* Resource limits for sandbox-init. */
void sbx_relay_tell_limits(const struct sbx_limits *limits);

/* GO is sent right behind the rest. */
void sbx_relay_go_along(void);

/* Until the container or the backend is gone, or files were collected. Returns the exit code, or
 * -EPROTO for a stream that is not our sandbox-init's. */
int sbx_relay_loop(void);
