/* SPDX-License-Identifier: Apache-2.0 */
#include "common/interest.h"

#include <errno.h>

#include <sys/epoll.h>

int cr_interest_set(int epoll_fd, int fd, void *ptr, uint32_t *interest, uint32_t wanted)
{
    struct epoll_event event = {.events = wanted, .data.ptr = ptr};
    int operation = EPOLL_CTL_MOD;

    if (fd < 0 || wanted == *interest)
        return 0;
    if (*interest == 0)
        operation = EPOLL_CTL_ADD;
    if (wanted == 0)
        operation = EPOLL_CTL_DEL;
    if (epoll_ctl(epoll_fd, operation, fd, &event) < 0)
        return -errno;
    *interest = wanted;
    return 0;
}
