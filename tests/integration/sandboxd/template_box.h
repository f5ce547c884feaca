/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "sandboxd/backend/cgroup.h"
#include "sandboxd/template/kind.h"
#include "sandboxd/template/template.h"
#include "tests/harness/test.h"

#include <stdint.h>

#include <sys/types.h>

struct cr_err;

/*
 * Real templates and the boxes that they fork, with the test in the place of the backend. What the
 * backend would hold is there once for the process. Needs root. Failures end the test.
 */

#define TEMPLATE_PLACES 2
#define TEMPLATE_DEADLINE_MS 60000
#define TEMPLATE_OUTPUT_MAX 65536

struct template_spec {
    const char *file_name;
    const char *file_text;
    const char *arg; /* one more behind those of the runtime; NULL: none */
    const char *env; /* value of a variable NAME; NULL: none */
};

/* A box from asking for it to its end. */
struct template_box {
    enum sbx_template_kind kind;
    uint32_t slot;
    uint32_t number;
    struct sbx_cgroup group;
    int workspace_fd;
    int control_fd;
    int pidfd;
    pid_t pid;
    int output_fds[2]; /* read ends: stdout, stderr */
    char output[2][TEMPLATE_OUTPUT_MAX];
    int wait_status;
};

/* The first is what template_run() uses; a second one beside it. Large. */
extern struct template_box box;
extern struct template_box neighbour;

/* The setup and teardown of the group. */
int template_set_up(void **state);
int template_tear_down(void **state);

void template_assert_ok(int r, const struct cr_err *err);

/* The template of that kind, started when there is none; stop() ends it. */
struct sbx_template *template_get(enum sbx_template_kind kind);
void template_stop(enum sbx_template_kind kind);
/* What it says next. */
struct sbx_template_event template_await(struct sbx_template *template);

/* The steps of a box, each by itself: up to WAITING, then its run, GO, and its end. */
void template_box_make(enum sbx_template_kind kind, uint32_t slot, struct template_box *ret_box);
void template_box_load(struct template_box *of, const struct template_spec *spec);
void template_box_go(const struct template_box *of);
void template_box_finish(struct template_box *of);
/* Instead of the last: reads what it wrote, and waits until nothing is left of it. */
void template_box_read(struct template_box *of);
void template_box_remove(struct template_box *of);

/* All of them, for `box`; the text becomes the file that the runtime starts with. */
void template_run(enum sbx_template_kind kind, const struct template_spec *spec);
void template_run_text(enum sbx_template_kind kind, const char *text);

/* It ended with 0 and wrote exactly this, and no errors. */
void template_assert_clean(const char *expected);
