/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

struct cr_buf;

/*
 * Appends the tokens of Python source, one a line, without comments, layout
 * and docstrings: equal for two files that do the same by their text. What is
 * no Python is appended as it is. Returns as cr_buf_add(). Pure.
 */
int agt_py_add_canonical(const char *text, struct cr_buf *buf);
