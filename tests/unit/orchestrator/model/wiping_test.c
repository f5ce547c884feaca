/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/model/wiping.h"
#include "tests/harness/test.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* The test's own free, which looks before it lets go. */
void __real_free(void *memory);
void __wrap_free(void *memory);

static const void *watched;
static size_t watched_size;
static int dirty_bytes; /* of the watched memory when it was freed; -1: it was not */

void __wrap_free(void *memory)
{
    if (memory && memory == watched) {
        const uint8_t *bytes = memory;

        dirty_bytes = 0;
        for (size_t i = 0; i < watched_size; i++)
            dirty_bytes += bytes[i] != 0;
        watched = NULL;
    }
    __real_free(memory);
}

static void watch(const void *memory, size_t size)
{
    watched = memory;
    watched_size = size;
    dirty_bytes = -1;
}

static void free_wipes(void **state)
{
    char *text = agt_wiping_strdup("the key");

    (void)state;
    assert_string_equal(text, "the key");
    watch(text, 8);
    agt_wiping_free(text);
    assert_int_equal(dirty_bytes, 0);
    agt_wiping_free(NULL);
}

static void realloc_keeps_the_content_and_wipes_the_old_place(void **state)
{
    char *text = agt_wiping_malloc(16);
    char *moved;

    (void)state;
    memcpy(text, "the key", 8);
    watch(text, 16);
    moved = agt_wiping_realloc(text, 100000);
    assert_non_null(moved);
    assert_int_equal(dirty_bytes, 0);
    assert_string_equal(moved, "the key");

    watch(moved, 100000);
    text = agt_wiping_realloc(moved, 8);
    assert_int_equal(dirty_bytes, 0);
    assert_string_equal(text, "the key");
    agt_wiping_free(text);
}

static void realloc_of_nothing_allocates(void **state)
{
    uint8_t *memory = agt_wiping_realloc(NULL, 10);

    (void)state;
    assert_non_null(memory);
    memory[9] = 1;
    agt_wiping_free(memory);
    memory = agt_wiping_calloc(3, 4);
    for (size_t i = 0; i < 12; i++)
        assert_int_equal(memory[i], 0);
    agt_wiping_free(memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(free_wipes),
        cmocka_unit_test(realloc_keeps_the_content_and_wipes_the_old_place),
        cmocka_unit_test(realloc_of_nothing_allocates),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
