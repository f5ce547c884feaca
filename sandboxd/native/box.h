/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "sandboxd/wire/boxspawn.h"
#include "sandboxd/wire/msg.h"

#include <stdbool.h>
#include <stdint.h>

#include <sys/types.h>

struct cr_err;
struct sbx_cgroup;
struct sbx_spawner;

/*
 * One box: its sandbox-init, seen from the backend. A fork of the spawner,
 * which builds its own surroundings step by step: first what is the same for
 * every box, then, when it is told whose box it is, the rest. A step that
 * fails comes back as SBX_INIT_FAILED with the stage on the control socket,
 * exactly as later failures do.
 */
struct sbx_box {
    pid_t pid;
    int pidfd;
    int control_fd;   /* SOCK_SEQPACKET, non-blocking; messages of boxctl.h */
    uint64_t user_us; /* CPU time of it and of all that it reaped, once it is reaped itself */
    uint64_t system_us;
};

#define SBX_BOX_INIT                                                                               \
    {                                                                                              \
        .pid = -1, .pidfd = -1, .control_fd = -1                                                   \
    }

/* The first half. All of it is borrowed for the call. */
struct sbx_box_shell {
    const struct sbx_spawner *spawner;
    const struct sbx_cgroup *group;
    int net_fd; /* network namespace made ahead; -1: the box makes its own */
};

/* The second half. All fds are borrowed for the call. */
struct sbx_box_plan {
    const struct sbx_limits *limits;
    int userns_fd;    /* user namespace of the place */
    int root_fd;      /* mount namespace of another root file system; -1: the backend's own */
    int workspace_fd; /* from sbx_workspace_make() */
    int payload_fd;   /* and these: for modes whose run is known */
    int stdio_fds[3];
    enum sbx_box_mode mode;
    bool is_watched;  /* without control groups: resource limits do what they can */
    bool has_one_id;  /* in its user namespace: the program's */
    uint16_t columns; /* TERMINAL */
    uint16_t rows;
};

/*
 * Makes the tmpfs of a run: folders "w", "t" and "s" become /workspace, /tmp
 * and /dev/shm. "w" belongs to host id `owner`. Never attached anywhere in
 * the backend's own mount namespace; the fd keeps it alive.
 */
int sbx_workspace_make(uint64_t bytes, uint64_t inodes, uid_t owner, int *ret_fd,
                       struct cr_err *err);

/* What lies in it. `bytes` and `inodes` are its limits; *ret_is_full when nothing more fits. */
int sbx_workspace_usage(int fd, uint64_t *ret_bytes, uint64_t *ret_inodes, bool *ret_is_full);

/*
 * Starts a box and returns at once. It enters its group, which may take long
 * (an RCU grace period on control groups v1), and then waits for
 * sbx_box_finish(), holding nothing of the caller's but what it needs.
 * On failure no process is left. Returns 0 or -errno.
 */
int sbx_box_begin(const struct sbx_box_shell *shell, struct sbx_box *ret_box, struct cr_err *err);

/*
 * Lets it become sandbox-init, and returns at once; READY (WAITING when its run
 * is to come) or FAILED comes on control_fd, also when it is dead by now.
 * Returns 0 or -errno.
 */
int sbx_box_finish(const struct sbx_box *box, const struct sbx_box_plan *plan, struct cr_err *err);

/* True when it has ended and can be reaped. */
bool sbx_box_is_dead(const struct sbx_box *box);

/* Sends SIGKILL to sandbox-init, which takes everything in its pid namespace along. */
void sbx_box_kill(const struct sbx_box *box);

/* Reaps it (its pidfd is readable) and closes the fds. Safe to repeat. */
void sbx_box_reap(struct sbx_box *box);
