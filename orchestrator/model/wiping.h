/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

/*
 * malloc and friends that wipe what they give back. Handed to libcurl, which
 * copies request headers, and with them the key, into many small buffers.
 */
void *agt_wiping_malloc(size_t size);
void *agt_wiping_calloc(size_t count, size_t size);
void *agt_wiping_realloc(void *memory, size_t size);
char *agt_wiping_strdup(const char *text);
void agt_wiping_free(void *memory);
