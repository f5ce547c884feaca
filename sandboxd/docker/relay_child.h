/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "sandboxd/wire/boxstream.h"

#include <stdbool.h>
#include <stdint.h>

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

/*
 * What the backend says first: with as many of the fds PAYLOAD, 0, 1, 2 and,
 * where there are such, FOLDER and COLLECT, in this order.
 */
struct sbx_relay_order {
    uint32_t has_folder;
    uint32_t has_collect;
    uint32_t has_limits;
    uint32_t is_going;
    uint64_t file_size_bytes;
    struct sbx_stream_limits limits;
    uint32_t mode; /* enum sbx_stream_mode */
    uint32_t size; /* of its terminal, as of SBX_STREAM_RESIZE */
    uint32_t is_fresh;
    uint32_t reserved;
};

#define SBX_RELAY_ORDER_FDS 6

/* Resource limits for sandbox-init, and whether GO is sent right behind the rest. */
void sbx_relay_take_order(const struct sbx_relay_order *order);

/* Until the container or the backend is gone, files were collected, or a run of a session is over.
 * Returns the exit code, or -EPROTO for a stream that is not our sandbox-init's. */
int sbx_relay_loop(void);
