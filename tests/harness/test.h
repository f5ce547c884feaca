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
