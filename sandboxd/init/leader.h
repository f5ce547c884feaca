/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "sandboxd/init/program.h"

#include <stdbool.h>
#include <stdint.h>

#include <sys/types.h>

/* The first process of the program, as its pid 1 sees it. */
struct sbx_leader_plan {
    int stdio[3]; /* become 0, 1, 2 of the program; they stay the caller's */
    int payload_fd;
    int seccomp_fd;
    int private_fd;  /* closed in the child before it reads a byte of the payload; -1: none */
    bool is_watched; /* its filter gets a listener, see sbx_program_load_filter() */
};

/*
 * Starts the program and waits for its exec. Returns its pid, or -1 with the
 * step that failed. *ret_listener_fd is CLOEXEC and the caller's; -1: none.
 */
pid_t sbx_leader_start(const struct sbx_leader_plan *plan, int *ret_listener_fd,
                       struct sbx_program_failure *ret_failure);

/*
 * Programs are the third process of their box, whoever forked them: a process
 * that does nothing takes a number. Returns 0 or -errno.
 */
int sbx_leader_use_up_pid(void);

/* Ends what the leader left running, and returns how many processes that were. */
uint32_t sbx_leader_kill_rest(void);
