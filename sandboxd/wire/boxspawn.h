/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "sandboxd/wire/msg.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Between the native backend and its spawner: a sandbox-init that was started
 * with this argument, has /dev/null at 0 to 2, 4, 6 and 7, a SOCK_SEQPACKET
 * pair to the backend at 3 and the seccomp program at 5. The init of each box
 * is a fork of it, so none has to be executed: it is then what one would be that
 * was executed with an argument of boxctl.h. It reads nothing that a caller
 * or a program can write; both ends come from one build.
 */
#define SBX_INIT_SPAWN_ARGUMENT "--spawn"

/*
 * In the environment of a sandbox-init-weak that is the spawner: the name of
 * the control that its boxes shall not have. sandbox-init looks at nothing of
 * its environment.
 */
#define SBX_INIT_LEAVE_OUT "CRISOL_LEAVE_OUT"

/* The fds of a request, in this order; those that `flags` do not name are left out. */
enum {
    SBX_SPAWN_CONTROL, /* the box's end of its control socket, see boxctl.h */
    SBX_SPAWN_REST,
};

#define SBX_SPAWN_FDS_MAX 8 /* control, folder, network, five entries */

#define SBX_SPAWN_INTO_GROUP UINT32_C(1) /* a folder: the box is cloned into that group (v2) */
#define SBX_SPAWN_HAS_NET UINT32_C(2)    /* a network namespace; else the box makes its own */

/* A box, please: it is answered with its pid, a child of the backend. */
struct sbx_spawn_request {
    uint32_t flags;   /* SBX_SPAWN_… */
    uint32_t entries; /* of control groups, as of sbx_cgroup_entries(): the last fds */
};

struct sbx_spawn_answer {
    int32_t pid;   /* of the backend's process namespace; with an error: -1 */
    int32_t error; /* errno, or 0 */
};

/* What a box is for: what its sandbox-init does, see boxctl.h. */
enum sbx_box_mode {
    SBX_BOX_RUN,      /* one program, which is known */
    SBX_BOX_AHEAD,    /* one that is not: payload and stdio are /dev/null */
    SBX_BOX_CELLS,    /* the interpreter of a session, likewise */
    SBX_BOX_FILES,    /* none: files in and out */
    SBX_BOX_TERMINAL, /* one program, with a terminal */
    SBX_BOX_MODE_COUNT,
};

/* What the backend then says to the box itself, on its control socket: whose it is. */
struct sbx_box_order {
    struct sbx_limits limits;
    uint32_t mode;    /* enum sbx_box_mode */
    uint16_t columns; /* TERMINAL */
    uint16_t rows;
    bool has_root;   /* it has another root file system than the spawner */
    bool is_watched; /* without control groups: resource limits do what they can */
    bool has_one_id; /* in its user namespace: the program's */
};

/* The fds that go with it: for AHEAD and CELLS the first two, then, with a root, that. */
enum {
    SBX_BOX_ORDER_USERNS,
    SBX_BOX_ORDER_WORKSPACE,
    SBX_BOX_ORDER_PAYLOAD,
    SBX_BOX_ORDER_STDIO,                         /* three */
    SBX_BOX_ORDER_FDS = SBX_BOX_ORDER_STDIO + 4, /* the last: the mount namespace of its root */
};

/* True when payload and streams go along; else they come with LOAD. */
static inline bool sbx_box_order_has_streams(const struct sbx_box_order *order)
{
    return order->mode != SBX_BOX_AHEAD && order->mode != SBX_BOX_CELLS;
}

static inline uint32_t sbx_box_order_fds(const struct sbx_box_order *order)
{
    const uint32_t own =
        sbx_box_order_has_streams(order) ? SBX_BOX_ORDER_FDS - 1 : SBX_BOX_ORDER_PAYLOAD;

    return own + (order->has_root ? 1 : 0);
}
