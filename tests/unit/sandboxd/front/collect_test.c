/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "sandboxd/front/collect.h"
#include "tests/harness/test.h"

#include <string.h>

enum {
    OK = 1,
    NOT_FOUND = 2,
    NOT_REGULAR = 3,
    TOO_LARGE = 4,
    UNREADABLE = 5,
    TOO_MANY = 6,
};

/* A file of a pattern; `name` is "" for a path that was asked for, and at the end of a pattern. */
static size_t put_named(uint8_t *at, uint32_t status, const char *name, const char *content)
{
    struct sbx_collect_header head = {status, (uint32_t)strlen(content), (uint32_t)strlen(name)};

    memcpy(at, &head, sizeof(head));
    memcpy(at + sizeof(head), name, head.name_size);
    memcpy(at + sizeof(head) + head.name_size, content, head.size);
    return sizeof(head) + head.name_size + head.size;
}

static size_t put(uint8_t *at, uint32_t status, const char *content)
{
    return put_named(at, status, "", content);
}

static void init(struct sbx_collector *collector, size_t count, size_t room)
{
    assert_int_equal(sbx_collector_init(collector, count, room), 0);
    for (size_t i = 0; i < count; i++)
        collector->files[i].max_bytes = 100;
}

/* Makes the first record one of a pattern. */
static void ask_glob(struct sbx_collector *collector, const char *pattern, uint32_t max_files)
{
    collector->files[0].path = strdup(pattern);
    collector->files[0].max_files = max_files;
    assert_non_null(collector->files[0].path);
}

static void collector_reads_files_at_any_cut(void **state)
{
    uint8_t stream[256];
    size_t size = put(stream, OK, "hello");

    (void)state;
    size += put(stream + size, NOT_FOUND, "");
    size += put(stream + size, OK, "");
    size += put(stream + size, OK, "world!");
    for (size_t step = 1; step <= size; step++) {
        struct sbx_collector collector;

        init(&collector, 4, 1000);
        for (size_t at = 0; at < size; at += step)
            sbx_collector_feed(&collector, stream + at, size - at < step ? size - at : step);
        assert_int_equal(collector.files[0].status, OK);
        assert_string_equal(cr_buf_str(&collector.files[0].data), "hello");
        assert_int_equal(collector.files[1].status, NOT_FOUND);
        assert_int_equal(collector.files[2].status, OK);
        assert_int_equal(collector.files[2].data.size, 0);
        assert_string_equal(cr_buf_str(&collector.files[3].data), "world!");
        sbx_collector_done(&collector);
    }
}

static void collector_that_is_cut_leaves_the_rest_unreadable(void **state)
{
    uint8_t stream[64];
    size_t size = put(stream, OK, "hello");
    struct sbx_collector collector;

    (void)state;
    init(&collector, 2, 1000);
    collector.files[0].is_required = true;
    sbx_collector_feed(&collector, stream, size - 1);
    assert_int_equal(collector.files[0].status, UNREADABLE);
    assert_int_equal(collector.files[1].status, UNREADABLE);
    assert_true(sbx_collector_has_failed(&collector));
    sbx_collector_done(&collector);
}

static void collector_ends_at_a_lie(void **state)
{
    static const struct sbx_collect_header lies[] = {{OK, 101, 0}, {NOT_FOUND, 1, 0},
                                                     {0, 0, 0},    {TOO_MANY, 0, 0},
                                                     {OK, 1, 1},   {UINT32_MAX, UINT32_MAX, 0}};

    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(lies); i++) {
        uint8_t stream[256] = {0};
        struct sbx_collector collector;

        init(&collector, 2, 1000);
        memcpy(stream, &lies[i], sizeof(lies[i]));
        sbx_collector_feed(&collector, stream, sizeof(stream));
        assert_true(collector.is_broken);
        assert_int_not_equal(collector.files[0].status, OK);
        assert_int_not_equal(collector.files[1].status, OK);
        sbx_collector_done(&collector);
    }
}

static void collector_keeps_within_the_room_of_all_files(void **state)
{
    uint8_t stream[256];
    size_t size = put(stream, OK, "12345");
    struct sbx_collector collector;

    (void)state;
    size += put(stream + size, OK, "123456");
    size += put(stream + size, OK, "12");
    init(&collector, 3, 8);
    sbx_collector_feed(&collector, stream, size);
    assert_int_equal(collector.files[0].status, OK);
    assert_int_equal(collector.files[1].status, TOO_LARGE);
    assert_int_equal(collector.files[1].data.size, 0);
    assert_int_equal(collector.files[2].status, OK);
    assert_false(sbx_collector_has_failed(&collector));
    sbx_collector_done(&collector);
}

static void collector_without_files_ignores_everything(void **state)
{
    struct sbx_collector collector;

    (void)state;
    init(&collector, 0, 8);
    sbx_collector_feed(&collector, "noise", 5);
    assert_false(sbx_collector_has_failed(&collector));
    sbx_collector_done(&collector);
}

static void collector_reads_the_files_of_a_pattern_at_any_cut(void **state)
{
    uint8_t stream[256];
    size_t size = put_named(stream, OK, "a.txt", "hello");

    (void)state;
    size += put_named(stream + size, UNREADABLE, "b.txt", "");
    size += put_named(stream + size, OK, "c.txt", "");
    size += put(stream + size, OK, "");
    size += put(stream + size, OK, "world!");
    for (size_t step = 1; step <= size; step++) {
        struct sbx_collector collector;

        init(&collector, 2, 1000);
        ask_glob(&collector, "*.txt", 3);
        for (size_t at = 0; at < size; at += step)
            sbx_collector_feed(&collector, stream + at, size - at < step ? size - at : step);
        assert_int_equal(collector.files[0].status, OK);
        assert_int_equal(collector.files[0].match_count, 3);
        assert_string_equal(collector.files[0].matches[0].path, "a.txt");
        assert_string_equal(cr_buf_str(&collector.files[0].matches[0].data), "hello");
        assert_int_equal(collector.files[0].matches[1].status, UNREADABLE);
        assert_int_equal(collector.files[0].matches[2].status, OK);
        assert_string_equal(cr_buf_str(&collector.files[1].data), "world!");
        assert_false(sbx_collected_is_whole(&collector.files[0]));
        sbx_collector_done(&collector);
    }
}

static void pattern_without_files_or_with_too_many_has_failed_when_it_is_required(void **state)
{
    static const uint32_t statuses[] = {NOT_FOUND, TOO_MANY, UNREADABLE};

    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(statuses); i++) {
        struct sbx_collector collector;
        uint8_t stream[64];
        size_t size = put(stream, statuses[i], "");

        init(&collector, 1, 1000);
        ask_glob(&collector, "*", 3);
        collector.files[0].is_required = true;
        sbx_collector_feed(&collector, stream, size);
        assert_int_equal(collector.files[0].status, statuses[i]);
        assert_true(sbx_collector_has_failed(&collector));
        sbx_collector_done(&collector);
    }
}

/* What is written by a collector that the program has taken over. */
static void pattern_believes_no_path_that_it_does_not_stand_for(void **state)
{
    static const char *const names[] = {"a.txt",     "b.c",   "../a.c", "a\nb.c",
                                        ".crisol.c", "d/a.c", "b.c",    "aa.c"};

    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(names); i++) {
        struct sbx_collector collector;
        uint8_t stream[256];
        size_t size = put_named(stream, OK, "b.c", "x");

        size += put_named(stream + size, OK, names[i], "x");
        size += put(stream + size, OK, "");
        init(&collector, 1, 1000);
        ask_glob(&collector, "*.c", 3);
        sbx_collector_feed(&collector, stream, size);
        assert_true(collector.is_broken);
        assert_int_equal(collector.files[0].match_count, 1);
        assert_int_equal(collector.files[0].status, UNREADABLE);
        sbx_collector_done(&collector);
    }
}

static void pattern_takes_no_more_files_than_it_may(void **state)
{
    struct sbx_collector collector;
    uint8_t stream[256];
    size_t size = put_named(stream, OK, "a", "x");

    (void)state;
    size += put_named(stream + size, OK, "b", "x");
    size += put_named(stream + size, OK, "c", "x");
    init(&collector, 1, 1000);
    ask_glob(&collector, "*", 2);
    sbx_collector_feed(&collector, stream, size);
    assert_true(collector.is_broken);
    assert_int_equal(collector.files[0].match_count, 2);
    sbx_collector_done(&collector);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(collector_reads_files_at_any_cut),
        cmocka_unit_test(collector_that_is_cut_leaves_the_rest_unreadable),
        cmocka_unit_test(collector_ends_at_a_lie),
        cmocka_unit_test(collector_keeps_within_the_room_of_all_files),
        cmocka_unit_test(collector_without_files_ignores_everything),
        cmocka_unit_test(collector_reads_the_files_of_a_pattern_at_any_cut),
        cmocka_unit_test(pattern_without_files_or_with_too_many_has_failed_when_it_is_required),
        cmocka_unit_test(pattern_believes_no_path_that_it_does_not_stand_for),
        cmocka_unit_test(pattern_takes_no_more_files_than_it_may),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
