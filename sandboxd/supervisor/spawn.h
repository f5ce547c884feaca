/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

struct cr_err;
struct sbx_child;
struct sbx_child_args;

#define SBX_SPAWN_LISTEN_MAX 2

/* The descriptors that a front gets besides wire and lifeline; -1: none. All borrowed. */
struct sbx_front_fds {
    int token;
    int audit;
    int runtimes; /* a bundle of runtime files */
    int tls;      /* certificates (common/tls_files.h) */
    int health;   /* a listening socket */
    int listens[SBX_SPAWN_LISTEN_MAX];
    size_t listen_count;
    int metrics; /* behind the listens */
};

/*
 * Start the two kinds of children, each with its end of the wire (borrowed)
 * and a lifeline of its own, whose other end is then child->lifeline_fd.
 * `runtimes_fd` is as in struct sbx_front_fds.
 * The order of the descriptors is decided here and nowhere else.
 */
int sbx_spawn_backend(struct sbx_child *child, const struct sbx_child_args *args, int wire_fd,
                      int runtimes_fd, struct cr_err *err);
int sbx_spawn_front(struct sbx_child *child, const struct sbx_child_args *args, int wire_fd,
                    const struct sbx_front_fds *fds, struct cr_err *err);

/* A pair for the wire or a lifeline: SOCK_SEQPACKET, CLOEXEC, non-blocking. */
int sbx_spawn_pair(int ret_fds[2], struct cr_err *err);
