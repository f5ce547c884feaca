/* SPDX-License-Identifier: Apache-2.0 */
#include "common/hash.h"
#include "tests/harness/test.h"

#include <string.h>

/* The published vectors of FNV-1a: labels of containers and images are made of these values. */
static void hash_is_the_published_one(void **state)
{
    static const struct {
        const char *text;
        uint64_t hash;
    } cases[] = {
        {"", UINT64_C(0xcbf29ce484222325)},
        {"a", UINT64_C(0xaf63dc4c8601ec8c)},
        {"foobar", UINT64_C(0x85944171f73967e8)},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_int_equal(cr_hash(CR_HASH_START, cases[i].text, strlen(cases[i].text)),
                         cases[i].hash);
}

static void hash_of_parts_is_that_of_the_whole(void **state)
{
    (void)state;

    assert_int_equal(cr_hash(cr_hash(CR_HASH_START, "foo", 3), "bar", 3),
                     cr_hash(CR_HASH_START, "foobar", 6));
    assert_int_equal(cr_hash(CR_HASH_START, NULL, 0), CR_HASH_START);
}

static void hash_text_knows_where_a_text_ends(void **state)
{
    (void)state;

    assert_int_equal(cr_hash_text(CR_HASH_START, "foobar"), cr_hash(CR_HASH_START, "foobar", 7));
    assert_int_not_equal(cr_hash_text(cr_hash_text(CR_HASH_START, "a"), "b"),
                         cr_hash_text(cr_hash_text(CR_HASH_START, "ab"), ""));
}

static void hash_number_is_eight_bytes_the_lowest_first(void **state)
{
    static const uint8_t bytes[] = {8, 7, 6, 5, 4, 3, 2, 1};

    (void)state;

    assert_int_equal(cr_hash_number(CR_HASH_START, UINT64_C(0x0102030405060708)),
                     cr_hash(CR_HASH_START, bytes, sizeof(bytes)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hash_is_the_published_one),
        cmocka_unit_test(hash_of_parts_is_that_of_the_whole),
        cmocka_unit_test(hash_text_knows_where_a_text_ends),
        cmocka_unit_test(hash_number_is_eight_bytes_the_lowest_first),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
