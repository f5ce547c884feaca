/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include <sys/types.h>

struct cr_err;
struct sbx_cgroup;

/*
 * The process that the inits of all boxes are forked from (wire/boxspawn.h):
 * sandbox-init, executed once, in our own mount namespace. It dies with us.
 * The boxes are our children and outlive it. It leads a process group, which
 * nobody is in but itself and a box that we have not been told of yet.
 */
struct sbx_spawner {
    pid_t pid; /* -1: there is none */
    int fd;    /* SOCK_SEQPACKET, with a deadline; its end is readable */
};

#define SBX_SPAWNER_INIT                                                                           \
    {                                                                                              \
        .pid = -1, .fd = -1                                                                        \
    }

/* What it is made of; all is borrowed for the call. */
struct sbx_spawner_plan {
    int init_fd;          /* the sandbox-init binary, O_PATH */
    int seccomp_fd;       /* the seccomp program of its boxes */
    const char *left_out; /* the name of a control, for sandbox-init-weak alone; NULL: none */
};

int sbx_spawner_start(const struct sbx_spawner_plan *plan, struct sbx_spawner *ret_spawner,
                      struct cr_err *err);

/*
 * Forks the init of a box, a child of ours. `control_fd` is its end of the
 * control socket; it enters `group` and joins `net_fd` (-1: makes a network);
 * all are borrowed. Waits for the fork and for nothing else. Returns the pid,
 * -ENOTCONN when the spawner is gone, or was silent, and has to be stopped, or
 * another -errno, behind which no process is left.
 */
pid_t sbx_spawner_fork(const struct sbx_spawner *spawner, int control_fd,
                       const struct sbx_cgroup *group, int net_fd, struct cr_err *err);

/* True when it has ended, or nothing is asked of it any more. */
bool sbx_spawner_is_gone(const struct sbx_spawner *spawner);

/* Ends it, with a box that it did not tell of, and waits for that. Safe to repeat. */
void sbx_spawner_stop(struct sbx_spawner *spawner);
