/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

/*
 * Writes the files of a payload below /workspace, as the program's user and in
 * a child that sees neither stream of the container: this process never reads
 * what came from a caller. `has_read_only`: also those that are marked so.
 * Returns 0 or -errno.
 */
int sbx_inputs_unpack(int payload_fd, bool has_read_only);
