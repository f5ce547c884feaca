/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "common/buf.h"
#include "sandboxd/wire/boxctl.h"
#include "sandboxd/wire/msg.h"
#include "sandboxd/wire/payload.h"
#include "tests/harness/test.h"

#include <stdbool.h>

#include <sys/types.h>

/*
 * The real sandbox-init as pid 1 of a small box of its own namespaces, with
 * the real filter, and the test in the place of the backend. Needs root.
 */
struct init_box {
    struct cr_buf payload;
    const char *workspace_options; /* of its tmpfs */
    const char *argument;          /* of sandbox-init; NULL: none */
    void (*before_exec)(void);     /* in pid 1, with its fds in place; NULL: nothing */
    pid_t pid;
    int control_fd;
    int output_fd;    /* read end of the program's stdout and stderr */
    int payload_fd;   /* not handed over yet; -1: none */
    int write_fd;     /* likewise, for stdout and stderr */
    int null_fd;      /* likewise, for stdin */
    bool is_go_along; /* GO comes with LOAD */
};

/* The setup and the teardown of a test: the state is a box that was not started. */
int init_box_make(void **state);
int init_box_remove(void **state);

/* The payload: one entry, an input file that is read-only, and a script of /bin/sh to run. */
void init_box_add(struct init_box *box, enum sbx_payload_kind kind, const char *name,
                  const char *data);
void init_box_add_read_only(struct init_box *box, const char *name, const char *data);
void init_box_add_shell(struct init_box *box, const char *script);

/* Its steps, each by itself; receive has a deadline. */
void init_box_start(struct init_box *box);
void init_box_receive(const struct init_box *box, struct sbx_init_msg *ret_msg);
void init_box_load(struct init_box *box);
void init_box_go(const struct init_box *box);

/* All of them. Returns what was said last: FAILED, or how the program ended. */
struct sbx_init_msg init_box_run(struct init_box *box);

void init_assert_exited(struct sbx_init_msg msg, int wait_status);
void init_assert_failed(struct sbx_init_msg msg, enum sbx_stage stage, int error);

/* Everything that the box wrote, in static storage; pid 1 must have ended, or this would not end.
 */
const char *init_box_output(const struct init_box *box);

/* Some supervisors start us with them ignored; sigaction(3) refuses them, the kernel does not. */
void init_box_ignore_signals(void);
