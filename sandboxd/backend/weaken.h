/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "sandboxd/wire/msg.h"

#include <stdbool.h>
#include <stdint.h>

struct cr_err;
struct sbx_backend;

/*
 * Leaves out ONE control, so that the self-test can see its probes fail: a
 * probe that was never seen to fail proves nothing. Only a flag of the
 * backend's program turns it on (two, so that nobody does by mistake), which
 * sandboxd has no setting for and no message of the wire can carry. What is
 * left out is a gap in HELLO, so that every result says so.
 *
 * What sandbox-init does, the self-test has left out by an init of its own
 * (--init): no_new_privs, the capabilities, in a container the user, in a
 * native box network, IPC, /proc and resource limits.
 */
#define SBX_WEAKEN_NOTHING SBX_CONTROL_COUNT

/* The flags of each backend, in its settings. */
struct sbx_weaken_settings {
    bool is_selftest; /* --selftest: allows `control` */
    char *control;    /* --weaken: the name of the control to leave out; NULL: none */
};

/* What --weaken asks for, or SBX_WEAKEN_NOTHING. A backend may refuse more. */
int sbx_weaken_parse(const struct sbx_weaken_settings *settings, uint32_t *ret_control,
                     struct cr_err *err);

bool sbx_is_weakened(const struct sbx_backend *backend, enum sbx_control control);

/* Behind the judgement of the host: marks what is left out as a gap. */
void sbx_weaken_controls(struct sbx_backend *backend);

/* Where the filter is left out: replaces *filter_fd by one that allows everything. */
int sbx_weaken_filter(const struct sbx_backend *backend, int *filter_fd, struct cr_err *err);
