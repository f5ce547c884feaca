/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

struct cr_err;

/*
 * Lets this process and its children have as many open files as its hard limit
 * (RLIMIT_NOFILE, getrlimit(2)) allows. Returns 0, or -EMFILE when that is too
 * few to serve with: a box that waits holds some ten of them, and groups are
 * made ahead.
 */
int sbx_open_files_raise(struct cr_err *err);
