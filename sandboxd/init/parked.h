/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "sandboxd/init/program.h"
#include "sandboxd/wire/template.h"

#include <stdbool.h>
#include <stdint.h>

#include <sys/types.h>

/*
 * An interpreter in a container that waits: started before there is a run, it
 * loads what the runtime loads, gives up everything and stops right before it
 * would look at a program (template/preload.h). Until then it runs code of the
 * image and ours only, and it serves one run. Embedded; fds are CLOEXEC.
 */
struct sbx_parked {
    pid_t pid;      /* -1: there is none */
    int channel_fd; /* SOCK_SEQPACKET; once it waits, it is as boxctl.h says of an adopted program
                     */
    int words_fd;   /* what it writes on standard error while it starts, non-blocking */
    bool is_ready;  /* it said READY, its hello comes next */
};

#define SBX_PARKED_INIT                                                                            \
    {                                                                                              \
        .pid = -1, .channel_fd = -1, .words_fd = -1                                                \
    }

/*
 * Starts one of `kind` with argv and environment of the payload; both fds stay
 * the caller's. Returns 0, or -1 with the step that failed.
 */
int sbx_parked_start(enum sbx_template_kind kind, int payload_fd, int filter_fd,
                     struct sbx_parked *ret_parked, struct sbx_program_failure *ret_failure);

/*
 * Takes what it says on its channel. Returns 1 when it waits from now on, with
 * the listener of its filter (owned by the caller; -1: none); 0 when there is
 * more to come; or -errno when it cannot wait, with its words: -EPIPE when it
 * ended.
 */
int sbx_parked_hear(struct sbx_parked *parked, int *ret_listener_fd,
                    char ret_words[SBX_TEMPLATE_WORDS_MAX]);
