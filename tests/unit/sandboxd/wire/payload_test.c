/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/buf.h"
#include "sandboxd/wire/payload.h"
#include "tests/harness/test.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include <sys/mman.h>

static int add_text(struct cr_buf *buf, enum sbx_payload_kind kind, const char *name,
                    const char *data)
{
    return sbx_payload_add(buf, kind, 0, 0, name, strlen(name), data, strlen(data));
}

/* One record of every kind. */
static void build(struct cr_buf *buf)
{
    cr_buf_init(buf, SBX_PAYLOAD_MAX);
    assert_int_equal(sbx_payload_begin(buf), 0);
    assert_int_equal(add_text(buf, SBX_PAYLOAD_ARG, "", "/bin/true"), 0);
    assert_int_equal(add_text(buf, SBX_PAYLOAD_ENV, "HOME", "/workspace"), 0);
    assert_int_equal(sbx_payload_add(buf, SBX_PAYLOAD_FILE, SBX_PAYLOAD_FILE_READ_ONLY, 0644,
                                     "a/b.py", 6, "x\0y", 3),
                     0);
    assert_int_equal(sbx_payload_add(buf, SBX_PAYLOAD_COLLECT, SBX_PAYLOAD_COLLECT_REQUIRED, 4096,
                                     "out", 3, NULL, 0),
                     0);
    sbx_payload_end(buf);
}

/* Reads to the end; returns the number of records, or the error. */
static int read_all(const void *data, size_t size)
{
    struct sbx_payload_reader reader;
    struct sbx_payload_item item;
    int count = 0;
    int r = sbx_payload_open(&reader, data, size);

    if (r < 0)
        return r;
    while ((r = sbx_payload_next(&reader, &item)) == 1)
        count++;
    return r < 0 ? r : count;
}

static void payload_reads_back_what_was_added(void **state)
{
    CR_AUTO_BUF struct cr_buf buf = {0};
    struct sbx_payload_reader reader;
    struct sbx_payload_item item;

    (void)state;
    build(&buf);

    assert_int_equal(sbx_payload_open(&reader, buf.data, buf.size), 0);
    assert_int_equal(sbx_payload_next(&reader, &item), 1);
    assert_int_equal(item.record.kind, SBX_PAYLOAD_ARG);
    assert_memory_equal(item.data, "/bin/true", item.record.data_size);
    assert_int_equal(sbx_payload_next(&reader, &item), 1);
    assert_memory_equal(item.name, "HOME", item.record.name_size);
    assert_int_equal(sbx_payload_next(&reader, &item), 1);
    assert_int_equal(item.record.mode, 0644);
    assert_int_equal(item.record.flags, SBX_PAYLOAD_FILE_READ_ONLY);
    assert_int_equal(item.record.data_size, 3);
    assert_memory_equal(item.data, "x\0y", 3);
    assert_int_equal(sbx_payload_next(&reader, &item), 1);
    assert_int_equal(item.record.mode, 4096);
    assert_int_equal(sbx_payload_next(&reader, &item), 0);
    assert_int_equal(sbx_payload_next(&reader, &item), 0);
}

/* In memory of exactly this size, so that ASan sees a byte too many; with the size put right when
 * the header is whole. */
static int read_cut(const uint8_t *data, size_t size, bool is_size_right)
{
    uint8_t *cut = malloc(size + !size);
    int r = -ENOMEM;

    if (cut) {
        memcpy(cut, data, size);
        if (is_size_right)
            memcpy(cut + offsetof(struct sbx_payload_header, size), &(uint64_t){size},
                   sizeof(uint64_t));
        r = read_all(cut, size);
    }
    free(cut);
    return r;
}

static void payload_refuses_every_cut(void **state)
{
    CR_AUTO_BUF struct cr_buf buf = {0};

    (void)state;
    build(&buf);

    assert_int_equal(read_all(buf.data, buf.size), 4);
    for (size_t size = 0; size < buf.size; size++) {
        assert_int_equal(read_cut(buf.data, size, false), -EPROTO);
        if (size >= sizeof(struct sbx_payload_header))
            assert_int_equal(read_cut(buf.data, size, true), -EPROTO);
    }
}

static void payload_refuses_bytes_behind_the_last_record(void **state)
{
    CR_AUTO_BUF struct cr_buf buf = {0};

    (void)state;
    build(&buf);
    assert_int_equal(cr_buf_add_char(&buf, 'x'), 0);
    sbx_payload_end(&buf);

    assert_int_equal(read_all(buf.data, buf.size), -EPROTO);
}

static void payload_refuses_sizes_that_wrap(void **state)
{
    static const uint64_t sizes[] = {UINT64_MAX, UINT64_MAX - 30, 1U << 31, 100};

    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(sizes); i++) {
        CR_AUTO_BUF struct cr_buf buf = {0};
        struct sbx_payload_record record;

        build(&buf);
        memcpy(&record, buf.data + sizeof(struct sbx_payload_header), sizeof(record));
        record.data_size = sizes[i];
        memcpy(buf.data + sizeof(struct sbx_payload_header), &record, sizeof(record));
        assert_int_equal(read_all(buf.data, buf.size), -EPROTO);
    }
}

static void payload_refuses_what_a_kind_may_not_hold(void **state)
{
    static const struct {
        uint32_t kind;
        uint32_t flags;
        uint32_t mode;
        const char *name;
        const char *data;
        size_t data_size;
    } cases[] = {
        {0, 0, 0, "", "", 0},
        {SBX_PAYLOAD_KIND_END, 0, 0, "", "", 0},
        {SBX_PAYLOAD_ARG, 0, 0, "name", "x", 1},
        {SBX_PAYLOAD_ARG, 1, 0, "", "x", 1},
        {SBX_PAYLOAD_ARG, 0, 1, "", "x", 1},
        {SBX_PAYLOAD_ARG, 0, 0, "", "a\0b", 3},
        {SBX_PAYLOAD_ENV, 0, 0, "", "x", 1},
        {SBX_PAYLOAD_ENV, 0, 0, "A=B", "x", 1},
        {SBX_PAYLOAD_ENV, 0, 0, "A", "a\0b", 3},
        {SBX_PAYLOAD_FILE, 3, 0644, "a", "x", 1}, /* both ways to stand there */
        {SBX_PAYLOAD_FILE, 4, 0644, "a", "x", 1},
        {SBX_PAYLOAD_FILE, 0, 04755, "a", "x", 1},
        {SBX_PAYLOAD_FILE, 0, 0644, "../a", "x", 1},
        {SBX_PAYLOAD_COLLECT, 0, 10, "/a", "", 0},
        {SBX_PAYLOAD_COLLECT, 0, 10, "a", "x", 1},
        {SBX_PAYLOAD_COLLECT, 2, 10, "a", "", 0},
        {SBX_PAYLOAD_COLLECT, 4, 10, "a", "", 0},
        {SBX_PAYLOAD_COLLECT, 2, 10, "a*", "\x01\0\0", 3},
        {SBX_PAYLOAD_COLLECT, 2, 10, "a*", "\0\0\0\0", 4},
        {SBX_PAYLOAD_COLLECT, 2, 10, "a*", "\x01\x04\0\0", 4}, /* 1,025 files */
        {SBX_PAYLOAD_COLLECT, 2, 10, "../*", "\x01\0\0\0", 4},
        {SBX_PAYLOAD_COLLECT, 2, 10, "a[", "\x01\0\0\0", 4},
    };

    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(cases); i++) {
        CR_AUTO_BUF struct cr_buf buf = {0};

        cr_buf_init(&buf, 4096);
        assert_int_equal(sbx_payload_begin(&buf), 0);
        assert_int_equal(sbx_payload_add(&buf, (enum sbx_payload_kind)cases[i].kind, cases[i].flags,
                                         cases[i].mode, cases[i].name, strlen(cases[i].name),
                                         cases[i].data, cases[i].data_size),
                         0);
        sbx_payload_end(&buf);
        assert_int_equal(read_all(buf.data, buf.size), -EPROTO);
    }
}

static void payload_add_keeps_the_payload_whole_at_the_cap(void **state)
{
    CR_AUTO_BUF struct cr_buf buf = {0};
    size_t before;

    (void)state;
    cr_buf_init(&buf, 100);
    assert_int_equal(sbx_payload_begin(&buf), 0);
    assert_int_equal(add_text(&buf, SBX_PAYLOAD_ARG, "", "/bin/true"), 0);
    before = buf.size;

    assert_int_equal(add_text(&buf, SBX_PAYLOAD_FILE, "a-long-name",
                              "content that does not fit behind the name any more"),
                     -ENOSPC);

    assert_int_equal(buf.size, before);
    sbx_payload_end(&buf);
    assert_int_equal(read_all(buf.data, buf.size), 1);
}

static void payload_add_counts_its_records(void **state)
{
    CR_AUTO_BUF struct cr_buf buf = {0};

    (void)state;
    cr_buf_init(&buf, SBX_PAYLOAD_MAX);
    assert_int_equal(sbx_payload_begin(&buf), 0);

    for (size_t i = 0; i < SBX_PAYLOAD_RECORDS_MAX; i++)
        assert_int_equal(add_text(&buf, SBX_PAYLOAD_ARG, "", "x"), 0);

    assert_int_equal(add_text(&buf, SBX_PAYLOAD_ARG, "", "x"), -ENOSPC);
    sbx_payload_end(&buf);
    assert_int_equal(read_all(buf.data, buf.size), SBX_PAYLOAD_RECORDS_MAX);
}

static void payload_seal_is_final(void **state)
{
    const int fds_before = test_count_fds();
    CR_AUTO_BUF struct cr_buf buf = {0};
    void *map;
    int fd;

    (void)state;
    build(&buf);

    fd = sbx_payload_seal(&buf, NULL);

    assert_true(fd >= 0);
    assert_int_equal(fcntl(fd, F_GET_SEALS),
                     F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL);
    assert_int_equal(pwrite(fd, "x", 1, 0), -1);
    map = mmap(NULL, buf.size, PROT_READ, MAP_PRIVATE, fd, 0);
    assert_ptr_not_equal(map, MAP_FAILED);
    assert_int_equal(read_all(map, buf.size), 4);
    assert_int_equal(munmap(map, buf.size), 0);
    assert_int_equal(close(fd), 0);
    assert_int_equal(test_count_fds(), fds_before);
}

static void path_rules_hold(void **state)
{
    static const char *const safe[] = {
        "a", "a/b.py", "unicode-\xc3\xa9.py", "...", "-rf", ".hidden/file", "a b", "\xff", "..a/b"};
    static const char *const unsafe[] = {"",       "/abs", "../x",   "a/../b", "a//b",
                                         "a/./b",  ".",    "..",     "a/",     "/",
                                         "a/b/..", "a\nb", "\x1b[m", "\x7f",   "a/."};

    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(safe); i++)
        assert_true(sbx_path_is_safe(safe[i], strlen(safe[i])));
    for (size_t i = 0; i < CR_ARRAY_SIZE(unsafe); i++)
        assert_false(sbx_path_is_safe(unsafe[i], strlen(unsafe[i])));
    assert_false(sbx_path_is_safe("a\0b", 3));
}

static void path_sizes_end_where_they_say(void **state)
{
    char path[SBX_PAYLOAD_NAME_MAX + 2];

    (void)state;
    memset(path, 'a', sizeof(path));

    assert_true(sbx_path_is_safe(path, 255));
    assert_false(sbx_path_is_safe(path, 256));
    for (size_t i = 1; i < sizeof(path); i += 2)
        path[i] = '/';
    assert_true(sbx_path_is_safe(path, 31)); /* 16 components */
    assert_false(sbx_path_is_safe(path, 33));
    memset(path, 'a', sizeof(path));
    for (size_t i = 200; i < sizeof(path); i += 200)
        path[i] = '/';
    assert_true(sbx_path_is_safe(path, SBX_PAYLOAD_NAME_MAX));
    assert_false(sbx_path_is_safe(path, SBX_PAYLOAD_NAME_MAX + 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(payload_reads_back_what_was_added),
        cmocka_unit_test(payload_refuses_every_cut),
        cmocka_unit_test(payload_refuses_bytes_behind_the_last_record),
        cmocka_unit_test(payload_refuses_sizes_that_wrap),
        cmocka_unit_test(payload_refuses_what_a_kind_may_not_hold),
        cmocka_unit_test(payload_add_keeps_the_payload_whole_at_the_cap),
        cmocka_unit_test(payload_add_counts_its_records),
        cmocka_unit_test(payload_seal_is_final),
        cmocka_unit_test(path_rules_hold),
        cmocka_unit_test(path_sizes_end_where_they_say),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
