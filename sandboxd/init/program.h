/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

/* The ids of every program, inside its box. */
#define SBX_PROGRAM_UID 1000
#define SBX_PROGRAM_GID 1000

/* Which step failed, sent through the report pipe when the program could not be started. */
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
 * Reads argv and environment of a payload: -EPROTO when it is malformed or its
 * first argument is no absolute path. For unprivileged processes only.
 */
int sbx_program_read_vectors(int payload_fd, struct sbx_program_vectors *ret_vectors);

/* Loads the filter out of its memfd; from here on the process can do only what it allows. */
int sbx_program_load_filter(int fd);

/*
 * Turns the calling process, a fresh child of sandbox-init, into the program:
 * its own session, default signals, the unprivileged user, no fd but 0 to 2,
 * the filter, and then argv and environment of the payload. Never returns:
 * what fails is written to `report_fd` (CLOEXEC), and the process ends.
 */
_Noreturn void sbx_program_become(int payload_fd, int seccomp_fd, int report_fd);
