/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "sandboxd/init/program.h"
#include "sandboxd/wire/boxctl.h"

#include <stdbool.h>

/*
 * For a box that is made ahead of its run, see SBX_INIT_WAIT_ARGUMENT: takes
 * LOAD from the control socket and puts its fds where they belong, 0 to 2 and
 * SBX_INIT_FD_PAYLOAD. *ret_is_go: it was LOAD_GO. Returns 0 or -errno; -EPIPE:
 * the backend is gone.
 */
int sbx_adopt_load(bool *ret_is_go);

/*
 * For a program that exists already, see SBX_INIT_ADOPT_ARGUMENT; `channel_fd`
 * is the SOCK_SEQPACKET pair to it. Waits until it is ready. *ret_listener_fd
 * becomes that of its filter, when it sends one. Returns 0 or -errno; -EPIPE:
 * it died.
 */
int sbx_adopt_await(int channel_fd, int *ret_listener_fd);

/* Where sbx_adopt_load() put the fds of LOAD, in its order. */
extern const int sbx_adopt_places[SBX_INIT_LOAD_FDS];

/*
 * Gives it the resource limits of the caller and the fds of LOAD (borrowed),
 * and lets it go. Returns when it has taken them: 0, or -1 with the step that
 * failed. Closes channel_fd in any case.
 */
int sbx_adopt_start(int channel_fd, const int fds[SBX_INIT_LOAD_FDS],
                    struct sbx_program_failure *ret_failure);
