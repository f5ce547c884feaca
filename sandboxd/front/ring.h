/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/*
 * The newest bytes of a stream, found by their offset in it. Pure; embedded in
 * its owner.
 */
struct sbx_ring {
    uint8_t *data;
    size_t cap;
    uint64_t start; /* offset of the oldest byte that is there */
    uint64_t end;   /* of the byte that comes next */
};

/* Returns 0 or -ENOMEM. sbx_ring_done() is right after both, and on a zeroed one. */
int sbx_ring_init(struct sbx_ring *ring, size_t cap);
void sbx_ring_done(struct sbx_ring *ring);

/* Appends; the oldest bytes make room. */
void sbx_ring_add(struct sbx_ring *ring, const void *data, size_t size);

/*
 * The bytes from offset `at` on, which is not before `start`, as many as lie
 * together: 0 at the end only. Borrowed until the next change.
 */
size_t sbx_ring_span(const struct sbx_ring *ring, uint64_t at, const uint8_t **ret_data);
