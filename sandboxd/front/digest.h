/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct cr_err;
struct sbx_runtime;

#define SBX_DIGEST_SIZE 65 /* 64 hexadecimal digits and the NUL */

/* sha256 as hexadecimal digits; "" when libcrypto fails (out of memory). */
void sbx_digest(const void *data, size_t size, char ret_digest[SBX_DIGEST_SIZE]);

/* The same over a whole file; its position stays where it is. Returns 0 or -errno. */
int sbx_digest_file(int fd, char ret_digest[SBX_DIGEST_SIZE], struct cr_err *err);

/* The same number for the same caller: the backend compares it, and has no use for the name. */
uint64_t sbx_digest_caller(const char *name);

/* Identifies root filesystem, argv and environment of a runtime. */
void sbx_digest_runtime(const struct sbx_runtime *runtime, char ret_digest[SBX_DIGEST_SIZE]);
