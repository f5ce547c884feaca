/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/front/ring.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int sbx_ring_init(struct sbx_ring *ring, size_t cap)
{
    *ring = (struct sbx_ring){.data = malloc(cap), .cap = cap};
    return ring->data ? 0 : -ENOMEM;
}

void sbx_ring_done(struct sbx_ring *ring)
{
    free(ring->data);
    *ring = (struct sbx_ring){0};
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

void sbx_ring_add(struct sbx_ring *ring, const void *data, size_t size)
{
    const uint8_t *from = data;

    /* What would be overwritten at once need not be written. */
    if (size > ring->cap) {
        ring->end += size - ring->cap;
        from += size - ring->cap;
        size = ring->cap;
    }
    while (size > 0) {
        const size_t place = (size_t)(ring->end % ring->cap);
        const size_t step = least(size, ring->cap - place);

        memcpy(ring->data + place, from, step);
        ring->end += step;
        from += step;
        size -= step;
    }
    if (ring->end - ring->start > ring->cap)
        ring->start = ring->end - ring->cap;
}

size_t sbx_ring_span(const struct sbx_ring *ring, uint64_t at, const uint8_t **ret_data)
{
    const size_t place = (size_t)(at % ring->cap);

    *ret_data = ring->data + place;
    return at < ring->end ? least((size_t)(ring->end - at), ring->cap - place) : 0;
}
