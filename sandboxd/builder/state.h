/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "sandboxd/runtimes/table.h"

#include <limits.h>
#include <stddef.h>

struct cr_err;

/*
 * The folder of registered runtimes (sandboxd/supervisor/registered.h). A
 * build goes on in a folder ".build-PID" of it, which is laid out as a state
 * folder of its own; one that is replaced becomes ".old-PID" until no sandboxd
 * has it. What an earlier build left is removed by the next.
 */
struct sbx_state {
    int folder_fd;             /* the folder "runtimes" */
    int lock_fd;               /* one build or removal at one time */
    char path[PATH_MAX - 512]; /* of the folder "runtimes" */
};

#define SBX_STATE_INIT                                                                             \
    {                                                                                              \
        .folder_fd = -1, .lock_fd = -1                                                             \
    }

/*
 * Opens `state_dir`/runtimes, made when it is missing, takes its lock, or is
 * -EBUSY when somebody else has it, and removes what is left over. Returns 0 or
 * -errno.
 */
int sbx_state_open(const char *state_dir, struct sbx_state *state, struct cr_err *err);
void sbx_state_close(struct sbx_state *state);

/* The name of the folder of this process's build, which is made. */
int sbx_state_begin(struct sbx_state *state, char ret_name[NAME_MAX + 1], struct cr_err *err);

/* Puts BUILD/runtimes/NAME in place of what is registered under that name. */
int sbx_state_register(struct sbx_state *state, const char *build, const char *name,
                       struct cr_err *err);

/* Removes one. -ENOENT when there is none, -EBUSY while a sandboxd uses it. */
int sbx_state_remove(struct sbx_state *state, const char *name, struct cr_err *err);

/* Removes a folder of sbx_state_begin(). Best effort: the next build tries again. */
void sbx_state_discard(struct sbx_state *state, const char *build);
