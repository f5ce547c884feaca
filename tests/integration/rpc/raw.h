/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* HTTP/2 by hand, for requests that no gRPC library sends. One stream, number 1. */

/* Preface, SETTINGS and the request headers of a POST to `path`. */
void raw_open(int fd, const char *path);

/* One DATA frame. */
void raw_data(int fd, const void *data, size_t size, bool is_last);

/* Reads until trailers with a grpc-status came; asserts that this takes less than 10 s. */
int raw_read_status(int fd);
