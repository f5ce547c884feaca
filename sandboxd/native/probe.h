/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

struct cr_err;
struct sbx_native;

/*
 * Runs a program (`argv`, NULL-terminated, absolute) in a box, before the
 * first answer to anybody: a host that forbids a step says so at the start,
 * with the step and what to do about it, and not in the result of the first
 * request. Waits, with a deadline; needs everything that a run needs but the
 * keeper and the loop. 0 when it exited with 0.
 */
int sbx_probe(struct sbx_native *native, const char *const *argv, struct cr_err *err);

/* Makes a control group, writes the default limits, reads them back, and removes it. */
int sbx_probe_group(struct sbx_native *native, struct cr_err *err);
