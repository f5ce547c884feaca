/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "sandboxd/init/cells.h"
#include "sandboxd/init/program.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sys/types.h>

/*
 * The interpreter of a sandbox whose calls share one container: it stays when
 * its call is over, and so does everybody that it began, all of them stopped.
 * Other programs of the sandbox run beside it and end with their call. Embedded.
 */
#define SBX_KEPT_MOST 1024U

struct sbx_kept_process {
    pid_t pid;
    uint64_t start; /* a number that is given again is another process then */
};

struct sbx_kept {
    struct sbx_cells cells; /* its socket, and the streams of the next call */
    pid_t pid;              /* -1: there is none */
    int listener_fd;        /* of its filter, while it is stopped; -1 */
    bool is_parked;         /* it is, with all `members` */
    struct sbx_kept_process members[SBX_KEPT_MOST];
    size_t count;
};

#define SBX_KEPT_INIT                                                                              \
    {                                                                                              \
        .cells = {.socket_fd = -1, .theirs_fd = -1, .null_fd = -1, .streams = {-1, -1, -1}},       \
        .pid = -1, .listener_fd = -1                                                               \
    }

/*
 * Starts it with argv and environment of the payload; both fds stay the caller's. Returns 0, or -1
 * with the step that failed.
 */
int sbx_kept_start(struct sbx_kept *kept, int payload_fd, int filter_fd,
                   struct sbx_program_failure *ret_failure);

/* Lets it go on, with the streams of its next call, which it alone has then: consumed. Returns 0 or
 * -errno. */
int sbx_kept_wake(struct sbx_kept *kept, int streams[3]);

/* Stops everybody and notes who that is. False: they are too many, or cannot be told. */
bool sbx_kept_park(struct sbx_kept *kept);

/* It has ended, or is to end: nobody is left out of the next call of sbx_kept_end_others(). */
void sbx_kept_forget(struct sbx_kept *kept);

/* Ends everybody but those that are parked, and returns how many processes that were. */
uint32_t sbx_kept_end_others(struct sbx_kept *kept);

/*
 * Pure: when a process began, in ticks, as /proc/PID/stat tells. Returns 0, or -EPROTO for what is
 * no such file.
 */
int sbx_kept_parse_start(const char *text, uint64_t *ret_start);
