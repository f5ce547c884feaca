/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "sandboxd/wire/msg.h"

#include <stdint.h>

/*
 * The settings --max-… of sandboxd, which hands them to its backend unchanged.
 * Calls ROW(flag, limit, highest value that can be set) for each.
 */
#define SBX_MAXIMA(ROW)                                                                            \
    ROW("max-wall-time-ms", SBX_LIMIT_WALL_TIME, 86400000)                                         \
    ROW("max-cpu-time-ms", SBX_LIMIT_CPU_TIME, 864000000)                                          \
    ROW("max-memory-bytes", SBX_LIMIT_MEMORY, UINT64_C(1) << 44)                                   \
    ROW("max-processes", SBX_LIMIT_PROCESSES, 1000000)                                             \
    ROW("max-cpu-millicores", SBX_LIMIT_CPU_MILLICORES, 1000000)                                   \
    ROW("max-open-files", SBX_LIMIT_OPEN_FILES, 1000000)                                           \
    ROW("max-file-size-bytes", SBX_LIMIT_FILE_SIZE, UINT64_C(1) << 44)                             \
    ROW("max-workspace-bytes", SBX_LIMIT_WORKSPACE_BYTES, UINT64_C(1) << 44)                       \
    ROW("max-workspace-inodes", SBX_LIMIT_WORKSPACE_INODES, UINT32_MAX / 2)                        \
    ROW("max-stack-bytes", SBX_LIMIT_STACK, UINT64_C(1) << 40)                                     \
    ROW("max-output-bytes", SBX_LIMIT_OUTPUT, UINT64_C(1) << 32)

#define SBX_MAXIMUM_HELP "The most that a request may ask for; 0: the built-in maximum."
