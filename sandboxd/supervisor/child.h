/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "sandboxd/supervisor/pulse.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sys/types.h>

struct cr_err;

/* A child process: empty environment, own session, no descriptor but those that it is given. */
struct sbx_child {
    const char *name;   /* "sandboxd-native": the binary beside our own. Borrowed, static */
    pid_t pid;          /* 0: not running */
    int lifeline_fd;    /* our end; its end is the child's end; -1: none */
    int64_t started_ns; /* CLOCK_MONOTONIC */
    struct sbx_pulse pulse;
};

#define SBX_CHILD_FDS_MAX 70U

/*
 * Starts child->name with `argv` (NULL-terminated; the first is replaced by
 * the path). `fds` become the descriptors from 3 on; -1 leaves a hole.
 * Standard input and output are /dev/null, standard error is ours.
 * Returns 0 or -errno; the child stays as it was on failure.
 */
int sbx_child_start(struct sbx_child *child, const char *const *argv, const int *fds,
                    size_t fd_count, struct cr_err *err);

/* Sends the signal, if it runs. */
void sbx_child_kill(const struct sbx_child *child, int signal_number);

/*
 * Looks at its pulse. One that stands still is of no use to anybody, and its
 * end is a thing that all others know how to deal with: it is killed, unless a
 * signal has stopped it. True for one that turns, or does not run.
 */
bool sbx_child_is_turning(struct sbx_child *child);

/* Says in the log how it ended; `status` is that of waitpid(2). */
void sbx_child_log_end(const struct sbx_child *child, int status);

/*
 * Runs child->name to its end, at most `deadline_ms`, and kills it then.
 * `has_output`: its standard output is ours. Returns its exit code, or -errno;
 * -ETIMEDOUT past the deadline. SIGCHLD may be blocked.
 */
int sbx_child_run(const char *name, const char *const *argv, bool has_output, int deadline_ms,
                  struct cr_err *err);
