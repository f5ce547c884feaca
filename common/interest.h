/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

/*
 * Makes an epoll(7) instance watch `fd` for `wanted` (EPOLLIN and so on; 0:
 * not at all), with `ptr` in its events. `interest` is what it is watched for
 * now, 0 at first; it is changed with it, and nothing is asked of the kernel
 * where it is the same. A closed fd (-1) is left alone. Returns 0 or -errno.
 */
int cr_interest_set(int epoll_fd, int fd, void *ptr, uint32_t *interest, uint32_t wanted);
