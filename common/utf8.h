/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cr_buf;

/* True when `data` is well-formed UTF-8 (RFC 3629: no overlong forms, no surrogates). NUL is
 * allowed. */
bool cr_utf8_is_valid(const void *data, size_t size);

/*
 * Length of the longest prefix of `data` that ends on a character border, so
 * that an incomplete last character can wait for its other bytes. Bytes that
 * can never become a character count as complete.
 */
size_t cr_utf8_complete_prefix(const void *data, size_t size);

/*
 * Appends `data` with every ill-formed sequence and every NUL replaced by
 * U+FFFD (the "maximal subpart" rule of Unicode 3.9). Returns as cr_buf_add().
 */
int cr_utf8_add_lossy(struct cr_buf *buf, const void *data, size_t size);
