/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/*
 * Which call a process is held back in: its number, or one of the values of
 * boxctl.h. To be asked when the listener is readable. The process is never
 * answered: it waits for the kill that is the backend's. Unless it wants to
 * make a socket, which it may: then it goes on, and *ret_is_socket is true.
 */
uint32_t sbx_violation_read(int listener_fd, bool *ret_is_socket);
