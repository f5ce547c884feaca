/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "sandboxd/wire/msg.h"

#include <stdbool.h>
#include <stdint.h>

struct cr_err;
struct sbx_native;
struct sbx_native_settings;

/*
 * Leaves out ONE control, so that the self-test can see its probes fail: a
 * probe that was never seen to fail proves nothing. Only a flag of this
 * program turns it on (two, so that nobody does by mistake), which sandboxd
 * has no setting for and no message of the wire can carry. What is left out is
 * a gap in HELLO, so that every result says so.
 *
 * no_new_privs and the capabilities are not among them: sandbox-init does
 * those, and the self-test has an init of its own that does not (--init).
 */
#define SBX_WEAKEN_NOTHING SBX_CONTROL_COUNT

/* What --weaken asks for, or SBX_WEAKEN_NOTHING. */
int sbx_weaken_parse(const struct sbx_native_settings *settings, uint32_t *ret_control,
                     struct cr_err *err);

bool sbx_is_weakened(const struct sbx_native *native, enum sbx_control control);

/* Where control groups or user ids are what is left out. Behind the judgement of the host. */
void sbx_weaken_host(struct sbx_native *native);

/* Where the filter is: replaces it by one that allows everything. */
int sbx_weaken_filter(struct sbx_native *native, struct cr_err *err);
