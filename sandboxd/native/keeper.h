/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <sys/types.h>

struct cr_err;
struct sbx_cgroup_host;

/*
 * The keeper: a child of the backend that does the work which may wait behind
 * an RCU grace period or free much memory, so that the loop never does. It
 * makes and removes control groups, makes network namespaces and drops the
 * last reference to workspaces. When the backend is gone, however it went, it kills and removes
 * what is left and exits.
 */
struct sbx_keeper {
    pid_t pid;
    int fd; /* SOCK_SEQPACKET, non-blocking */
};

#define SBX_KEEPER_INIT                                                                            \
    {                                                                                              \
        .pid = -1, .fd = -1                                                                        \
    }

enum sbx_keeper_op {
    SBX_KEEPER_MAKE = 1,
    SBX_KEEPER_REMOVE = 2,
    SBX_KEEPER_MAKE_NETLESS = 3,
    SBX_KEEPER_DROP = 4, /* has no answer */
};

struct sbx_keeper_msg {
    uint32_t op; /* enum sbx_keeper_op; in the answer the same */
    uint32_t number;
    int32_t error; /* in the answer: 0 or a positive errno */
};

/* Forks the keeper. `host` must be open. */
int sbx_keeper_start(const struct sbx_cgroup_host *host, struct sbx_keeper *ret_keeper,
                     struct cr_err *err);

/*
 * Asks for a group and, `with_net`, a network namespace; the answer comes on
 * the fd. Returns 0 or -errno.
 */
int sbx_keeper_make(const struct sbx_keeper *keeper, uint32_t number, bool with_net);

/*
 * Hands a group back, with a workspace to drop (borrowed: the caller closes
 * its fd after this returned; -1: none). Returns 0 or -errno.
 */
int sbx_keeper_remove(const struct sbx_keeper *keeper, uint32_t number, int workspace_fd);

/* Hands it a workspace, or the namespace of one, to drop (borrowed, likewise). Returns 0 or -errno.
 */
int sbx_keeper_drop(const struct sbx_keeper *keeper, int space_fd);

/*
 * Next answer: 0, -EAGAIN, -EPIPE when the keeper is gone. *ret_net_fd is the
 * caller's: the network namespace with an answer to MAKE, its loopback up; else -1.
 */
int sbx_keeper_receive(const struct sbx_keeper *keeper, struct sbx_keeper_msg *ret_msg,
                       int *ret_net_fd);

/* Lets it clean up and waits for it, up to a deadline. Safe to repeat. */
int sbx_keeper_stop(struct sbx_keeper *keeper, struct cr_err *err);
