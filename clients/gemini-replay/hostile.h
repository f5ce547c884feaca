/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

struct cr_err;

/*
 * Serves the faults of hostile_cases.h, byte by byte. One thread.
 *
 * A connection that begins with a TLS handshake is taken and never answered.
 */
struct hostile_options {
    int listen_fd; /* borrowed: listening, non-blocking */
    uint16_t port; /* of it */
    uint64_t seed; /* of all that a case leaves open: line ends, comments, framing, writes */
};

/* Serves until `stop_fd` is readable. Returns 0 or -errno. */
int hostile_run(const struct hostile_options *options, int stop_fd, struct cr_err *err);
