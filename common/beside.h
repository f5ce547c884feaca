/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

struct cr_err;

/*
 * Our programs lie in one folder and find each other there. Writes the path of
 * the program `name` beside the running one into `ret_path` (PATH_MAX bytes).
 * Returns 0, or -errno when there is no such file that can be executed; then
 * what is in ret_path is of no use.
 */
int cr_beside_find(const char *name, char *ret_path, struct cr_err *err);
