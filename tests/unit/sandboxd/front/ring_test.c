/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/front/ring.h"
#include "tests/harness/test.h"

#include <string.h>

#define CAP 7U

/* All bytes from `at` on, span by span. */
static size_t read_all(const struct sbx_ring *ring, uint64_t at, char *text)
{
    const uint8_t *data;
    size_t total = 0;
    size_t size;

    while ((size = sbx_ring_span(ring, at + total, &data)) > 0) {
        memcpy(text + total, data, size);
        total += size;
    }
    text[total] = '\0';
    return total;
}

static void ring_keeps_the_newest_at_any_chunking(void **state)
{
    static const char text[] = "abcdefghijklmnopqrstuvwxyz";
    const size_t length = sizeof(text) - 1;

    (void)state;
    for (size_t chunk = 1; chunk <= length; chunk++) {
        struct sbx_ring ring;
        char found[CAP + 1];

        assert_int_equal(sbx_ring_init(&ring, CAP), 0);
        for (size_t at = 0; at < length; at += chunk) {
            const size_t size = length - at < chunk ? length - at : chunk;

            sbx_ring_add(&ring, text + at, size);
            assert_int_equal(ring.end, at + size);
            assert_int_equal(ring.start, at + size > CAP ? at + size - CAP : 0);
            assert_int_equal(read_all(&ring, ring.start, found), ring.end - ring.start);
            assert_memory_equal(found, text + ring.start, ring.end - ring.start);
        }
        sbx_ring_done(&ring);
    }
}

static void ring_reads_from_any_offset(void **state)
{
    struct sbx_ring ring;
    char found[CAP + 1];

    (void)state;
    assert_int_equal(sbx_ring_init(&ring, CAP), 0);
    sbx_ring_add(&ring, "0123456789", 10);

    for (uint64_t at = ring.start; at <= ring.end; at++) {
        assert_int_equal(read_all(&ring, at, found), ring.end - at);
        assert_string_equal(found, &"0123456789"[at]);
    }
    sbx_ring_done(&ring);
    sbx_ring_done(&ring);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ring_keeps_the_newest_at_any_chunking),
        cmocka_unit_test(ring_reads_from_any_offset),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
