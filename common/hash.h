/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/*
 * FNV-1a with 64 bits (draft-eastlake-fnv): spreads keys over buckets and tells builds, files and
 * requests apart. Not against malice: whoever chooses the bytes can make two that are alike, so
 * nothing that has to be trusted may hang on it. The values are the same on every host and build,
 * and some of them are written down (labels of containers and images).
 *
 * A hash of several parts starts with CR_HASH_START and goes from call to call.
 */
#define CR_HASH_START UINT64_C(0xcbf29ce484222325)

/* `size` bytes more; none leaves the hash as it is, and `data` may then be NULL. */
uint64_t cr_hash(uint64_t hash, const void *data, size_t size);

/* The text and its NUL, so that "a" and "b" are not "ab" and "". */
uint64_t cr_hash_text(uint64_t hash, const char *text);

/* As eight bytes, the lowest first. */
uint64_t cr_hash_number(uint64_t hash, uint64_t number);
