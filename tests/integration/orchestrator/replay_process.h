/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

#include <sys/types.h>

/* A gemini-replay that was started by a test; it dies with the test. */
struct replay_process {
    pid_t pid;
    uint16_t port;
};

#define REPLAY_ARGUMENTS_MAX 8

/*
 * Starts `program` with these arguments (NULL at the end; --listen is added)
 * and one setting of the environment, waits until it serves, fails the test
 * when it does not.
 */
struct replay_process replay_process_start(const char *program, const char *const *arguments,
                                           const char *setting);

/* Ends it; it must end well. */
void replay_process_stop(const struct replay_process *replay);
