/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include <sys/types.h>

/* The process that listens on a TCP port. */
struct cr_port_holder {
    pid_t pid;
    char name[32]; /* as in /proc/PID/comm, control characters replaced by '?' */
};

/*
 * Looks through /proc for the process that listens on `port`, for an error
 * message that says whom to stop. Without root only own processes are seen.
 * Returns 0, or -ENOENT when /proc does not tell.
 */
int cr_port_holder_find(uint16_t port, struct cr_port_holder *ret_holder);
