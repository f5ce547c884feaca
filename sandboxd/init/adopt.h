/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "sandboxd/init/program.h"

#include <stdbool.h>

/*
 * For a box that is made ahead of its run, see SBX_INIT_WAIT_ARGUMENT: takes
 * LOAD from the control socket and puts its fds where they belong, 0 to 2 and
 * SBX_INIT_FD_PAYLOAD. *ret_is_go: it was LOAD_GO. Returns 0 or -errno; -EPIPE:
 * the backend is gone.
 */
int sbx_adopt_load(bool *ret_is_go);

/*
 * For a program that exists already, see SBX_INIT_ADOPT_ARGUMENT. Waits until
 * it is ready. *ret_listener_fd becomes that of its filter, when it sends one.
 * Returns 0 or -errno; -EPIPE: it died.
 */
int sbx_adopt_await(int *ret_listener_fd);

/*
 * Gives it the resource limits of the caller and the fds of LOAD, and lets it
 * go. Returns when it has taken them: 0, or -1 with the step that failed.
 */
int sbx_adopt_start(struct sbx_program_failure *ret_failure);
