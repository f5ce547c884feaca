/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "sandboxd/wire/payload.h"

#include <stdbool.h>
#include <stdint.h>

/* The ids of every program, inside its box. */
#define SBX_PROGRAM_UID 1000
#define SBX_PROGRAM_GID 1000

/* Of a process that becomes a program, CLOEXEC: what goes wrong is told there. */
#define SBX_PROGRAM_FD_REPORT 3

/* Which step failed, sent through the report socket when the program could not be started; or, with
 * SBX_STAGE_NONE and a file descriptor, the listener of its filter. */
struct sbx_program_failure {
    uint32_t stage; /* enum sbx_stage */
    int32_t error;
};

/* NULL-terminated; the memory belongs to the process until it ends. */
struct sbx_program_vectors {
    char **argv;
    char **envp;
};

/*
 * Makes argv and environment of a payload: -EPROTO when it is malformed or its
 * first argument is no absolute path. For unprivileged processes only.
 */
int sbx_program_build_vectors(struct sbx_payload_reader reader,
                              struct sbx_program_vectors *ret_vectors);

/* The same of a payload that is not mapped, then or afterwards. */
int sbx_program_read_vectors(int payload_fd, struct sbx_program_vectors *ret_vectors);

/*
 * Loads the filter out of its memfd; from here on the process can do only what
 * it allows. Calls that only an attack makes are not killed by the kernel but
 * held back for good, and told to whoever has the listener (violation.h):
 * only so can a kill be told from a signal that the program sent itself.
 * *ret_listener_fd is CLOEXEC, or -1 where the kernel has none for us (then it
 * kills). Returns 0 or -errno.
 */
int sbx_program_load_filter(int fd, int *ret_listener_fd);

/*
 * A fresh child of sandbox-init gets a session of its own and default signals,
 * and gives up every privilege. Returns 0 or -errno; then it must end.
 */
int sbx_program_prepare(void);

/* What the listener is told of. */
enum sbx_program_watch {
    SBX_WATCH_NOTHING, /* there is none */
    SBX_WATCH_CALLS,   /* calls that only an attack makes, which never return */
    SBX_WATCH_SOCKETS, /* and sockets, which are made when it says so */
};

/*
 * Takes the rest from such a process, the filter last: from here on it can do
 * only what the program can. `report_fd` becomes SBX_PROGRAM_FD_REPORT, what
 * lies from `first_closed` on is closed. Returns the listener, CLOEXEC, or -1
 * where there is none; what fails is sent as below, and the process ends.
 */
int sbx_program_confine(int seccomp_fd, int report_fd, int first_closed,
                        enum sbx_program_watch watch);

/* Executes the program, or says through SBX_PROGRAM_FD_REPORT why not. */
_Noreturn void sbx_program_execute(const struct sbx_program_vectors *vectors);

/*
 * Turns the calling process, a fresh child of sandbox-init, into the program:
 * its own session, default signals, the unprivileged user, no fd but 0 to 2,
 * the filter, and then argv and environment of the payload. Never returns:
 * what fails is sent through `report_fd` (SOCK_SEQPACKET, CLOEXEC), and the
 * process ends. `is_watched`: the listener goes through it as well, else
 * there is none.
 */
_Noreturn void sbx_program_become(int payload_fd, int seccomp_fd, int report_fd, bool is_watched);
