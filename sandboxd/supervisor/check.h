/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

struct cr_err;
struct sbx_settings;

/*
 * `sandboxd check`: tries what a start with these settings needs of the host,
 * with the code of the start itself, and prints a line for each need: PASS,
 * GAP or FAIL, with the fix. Only the folder of the socket and an audit log that did not exist
 * stay. Returns 0 when sandboxd would start, or -errno.
 */
int sbx_check_run(const struct sbx_settings *settings, struct cr_err *err);

/*
 * `--check-config`: lets the backends judge the settings that are theirs, as at
 * their start and without a look at the host, and prints all that would be in
 * force. Of --backend=auto both judge, but for --rootless, where it is native.
 * Returns 0, or -errno.
 */
int sbx_check_config(const struct sbx_settings *settings, struct cr_err *err);
