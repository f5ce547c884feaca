/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "sandboxd/init/program.h"

#include <stdbool.h>

#include <sys/types.h>

/*
 * The process that will be the program, forked before there is a payload: what
 * it has to give up, the filter's calls included, it has given up when the
 * payload comes. It puts the files in place itself, as the user of the
 * program, and waits for GO.
 */
struct sbx_ahead {
    pid_t pid;
    int fd;          /* SOCK_SEQPACKET to it, CLOEXEC */
    int listener_fd; /* of its filter, see sbx_program_load_filter(); the caller's from start on */
};

/* What to do with a payload. */
enum sbx_ahead_order {
    SBX_AHEAD_FIRST,    /* files in place, unless one of them is read-only */
    SBX_AHEAD_FIRST_GO, /* files in place, none of which is read-only, and then go at once */
    SBX_AHEAD_REST,     /* the files that are not read-only */
};

/* Forks it, and waits until it has given up everything. Returns 0, or -1 with the step that
 * failed. */
int sbx_ahead_start(struct sbx_ahead *ret_ahead, struct sbx_program_failure *ret_failure);

/*
 * Hands it the resource limits of the caller, and its fds 0 to 2 and
 * SBX_INIT_FD_PAYLOAD, and waits until the files are in place: with FIRST_GO
 * for nothing. With FIRST, a payload with a read-only file is nothing for it:
 * it writes nothing and ends. Returns 0, 1 when it ended so, or -1 with the
 * step that failed.
 */
int sbx_ahead_load(struct sbx_ahead *ahead, enum sbx_ahead_order order,
                   struct sbx_program_failure *ret_failure);

/* Lets it go, if it was not told to with its load. Returns 0, or -1 with the step that failed. */
int sbx_ahead_go(const struct sbx_ahead *ahead, struct sbx_program_failure *ret_failure);

/* It is dead: true when it never became the program, for what *ret_failure says. */
bool sbx_ahead_has_failed(const struct sbx_ahead *ahead, struct sbx_program_failure *ret_failure);
