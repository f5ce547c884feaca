/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

struct cr_err;

/* The fds that the supervisor gives to every backend. */
#define SBX_BACKEND_FD_FRONT 3
#define SBX_BACKEND_FD_LIFELINE 4
#define SBX_BACKEND_FD_RUNTIMES 5 /* only with --with-runtimes */

/* Signals are the supervisor's business: it closes the lifeline when it wants us to stop. */
int sbx_process_block_signals(struct cr_err *err);

/* Makes the two sockets CLOEXEC and closes everything else that was inherited. `program` is the
 * name for the error: somebody may have started it by hand. */
int sbx_process_take_fds(const char *program, int *ret_front_fd, int *ret_lifeline_fd,
                         struct cr_err *err);
