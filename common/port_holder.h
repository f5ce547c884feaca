/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include <sys/types.h>

/* Who listens on a TCP port. */
struct cr_port_holder {
    uid_t uid;     /* known whenever there is a listener */
    pid_t pid;     /* 0 when only root may see which process it is */
    char name[32]; /* as in /proc/PID/comm, control characters replaced by '?' */
};

/*
 * Looks through /proc for the process that listens on `port`, for an error
 * message that says whom to stop. Without root only own processes are seen,
 * and of those only the ones that may be traced; of others the user is told.
 * Returns 0, or -ENOENT when /proc does not tell.
 */
int cr_port_holder_find(uint16_t port, struct cr_port_holder *ret_holder);
