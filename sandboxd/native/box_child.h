/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "sandboxd/native/box.h"

#include <stdbool.h>
#include <stdint.h>

/* What sbx_box_finish() sends to the child. */
struct sbx_box_order {
    struct sbx_limits limits;
    bool has_root; /* the last fd is there */
    enum sbx_box_mode mode;
    bool is_rootless;
    uint16_t columns; /* TERMINAL */
    uint16_t rows;
};

/* The fds that go with it. */
enum {
    SBX_BOX_ORDER_STDIO, /* three */
    SBX_BOX_ORDER_PAYLOAD = 3,
    SBX_BOX_ORDER_USERNS,
    SBX_BOX_ORDER_WORKSPACE,
    SBX_BOX_ORDER_ROOT,
    SBX_BOX_ORDER_FDS,
};

/*
 * What the cloned child does until it is sandbox-init. Between clone and exec
 * in a copy of a process that is not ours alone: system calls only, no
 * allocation. Ends in sandbox-init, or exits after a report on `control_fd`.
 */
__attribute__((noreturn)) void sbx_box_child(const struct sbx_box_shell *shell, int control_fd);
