/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "sandboxd/wire/boxctl.h"
#include "sandboxd/wire/msg.h"

/* What pid 1 of a box says to the backend, and hears, on SBX_INIT_FD_CONTROL. */

/* Returns 0, or -EPIPE: the backend is gone. */
int sbx_say(struct sbx_init_msg msg);

/* Says that the step of `stage` failed (`error` is a negative errno), and ends. */
_Noreturn void sbx_say_failed(enum sbx_stage stage, int error);

/* Waits for GO. Returns 0, or -EPIPE: the backend is gone. */
int sbx_say_await_go(void);
