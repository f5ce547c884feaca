/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* cmocka needs these four before it. */
// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

/* Open file descriptors of this process, for leak checks. */
int test_count_fds(void);

/* Removes the folder and all that is in it, as rm(1) does. Returns 0 or -1: for a teardown. */
int test_remove_tree(const char *path);

/*
 * How many times slower than a usual machine this one is: CRISOL_SLOW_HOST,
 * from 1 (also when unset) to 100. Multiplies what a test waits for or allows,
 * and the limits of time that a test leaves at their defaults.
 */
unsigned int test_slowness(void);
