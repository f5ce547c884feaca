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

/* Enough for a path of the next two. */
#define TEST_PATH_SIZE 40

/*
 * A new empty folder, and a new empty file in one, of which the descriptor is returned. Both go
 * with all that is in them when the process ends, wherever a test of it failed.
 */
void test_folder_make(char *path, size_t size);
int test_file_make(char *path, size_t size);

/* Removes the folder and all that is in it, as rm(1) does. Returns 0 or -1: for a teardown. */
int test_remove_tree(const char *path);

/*
 * How many times slower than a usual machine this one is: CRISOL_SLOW_HOST,
 * from 1 (also when unset) to 100. Multiplies what a test waits for or allows,
 * and the limits of time that a test leaves at their defaults.
 */
unsigned int test_slowness(void);
