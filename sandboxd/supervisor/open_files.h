/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

struct cr_err;

/*
 * Lets this process and its children have as many open files as its hard limit
 * (RLIMIT_NOFILE, getrlimit(2)) allows. Returns 0, also when that is few,
 * which the log then says, or -EMFILE when it is too few to serve with.
 */
int sbx_open_files_raise(struct cr_err *err);
