/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

struct sbx_runtime;

#define SBX_DIGEST_SIZE 65 /* 64 hexadecimal digits and the NUL */

/* sha256 as hexadecimal digits; "" when libcrypto fails (out of memory). */
void sbx_digest(const void *data, size_t size, char ret_digest[SBX_DIGEST_SIZE]);

/* Identifies root filesystem, argv and environment of a runtime. */
void sbx_digest_runtime(const struct sbx_runtime *runtime, char ret_digest[SBX_DIGEST_SIZE]);
