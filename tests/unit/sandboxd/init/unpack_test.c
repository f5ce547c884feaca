/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/buf.h"
#include "sandboxd/init/unpack.h"
#include "sandboxd/wire/payload.h"
#include "tests/harness/test.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include <sys/stat.h>

/* A workspace and the payload that is unpacked into it. */
struct box {
    char path[64];
    int fd;
    struct cr_buf payload;
};

static int make_box(void **state)
{
    static struct box box;

    box = (struct box){.path = ""};
    test_folder_make(box.path, sizeof(box.path));
    box.fd = open(box.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    cr_buf_init(&box.payload, SBX_PAYLOAD_MAX);
    *state = &box;
    return box.fd < 0 ? -1 : sbx_payload_begin(&box.payload);
}

static int remove_box(void **state)
{
    struct box *box = *state;

    (void)close(box->fd);
    cr_buf_done(&box->payload);
    return test_remove_tree(box->path);
}

static void add_file(struct box *box, const char *path, uint32_t flags, uint32_t mode,
                     const char *text)
{
    assert_int_equal(sbx_payload_add(&box->payload, SBX_PAYLOAD_FILE, flags, mode, path,
                                     strlen(path), text, strlen(text)),
                     0);
}

static struct sbx_payload_reader reader_of(struct box *box)
{
    struct sbx_payload_reader reader;

    sbx_payload_end(&box->payload);
    assert_int_equal(sbx_payload_open(&reader, box->payload.data, box->payload.size), 0);
    return reader;
}

static void assert_file(const struct box *box, const char *path, mode_t mode, const char *text)
{
    CR_AUTO_CLOSE int fd = openat(box->fd, path, O_RDONLY | O_CLOEXEC);
    char content[64] = "";
    struct stat info;

    assert_true(fd >= 0);
    assert_int_equal(fstat(fd, &info), 0);
    assert_int_equal(info.st_mode & 07777U, mode);
    assert_int_equal(read(fd, content, sizeof(content) - 1), (int)strlen(text));
    assert_string_equal(content, text);
}

static mode_t folder_mode(const struct box *box, const char *path)
{
    struct stat info;

    assert_int_equal(fstatat(box->fd, path, &info, AT_SYMLINK_NOFOLLOW), 0);
    return info.st_mode & 07777U;
}

static void unpack_writes_files_with_their_modes(void **state)
{
    struct box *box = *state;
    const int fds_before = test_count_fds();
    const mode_t mask = umask(077);

    add_file(box, "a", 0, 0, "plain");
    add_file(box, "d/e/f.sh", 0, 0750, "deep");
    add_file(box, "d/g", 0, 0600, "");

    assert_int_equal(sbx_unpack_files(reader_of(box), box->fd, SBX_UNPACK_WRITABLE), 0);

    (void)umask(mask);
    assert_file(box, "a", 0644, "plain");
    assert_file(box, "d/e/f.sh", 0750, "deep");
    assert_file(box, "d/g", 0600, "");
    assert_int_equal(folder_mode(box, "d"), 0755);
    assert_int_equal(test_count_fds(), fds_before);
}

static void unpack_keeps_the_passes_apart(void **state)
{
    struct box *box = *state;

    add_file(box, "t/fixed", SBX_PAYLOAD_FILE_READ_ONLY, 0755, "fixed");
    add_file(box, "t/free", 0, 0, "free");
    assert_int_equal(sbx_unpack_has_read_only(reader_of(box)), 1);

    assert_int_equal(sbx_unpack_files(reader_of(box), box->fd, SBX_UNPACK_READ_ONLY), 0);
    assert_int_equal(faccessat(box->fd, "t/free", F_OK, 0), -1);
    assert_int_equal(sbx_unpack_files(reader_of(box), box->fd, SBX_UNPACK_WRITABLE), 0);

    assert_file(box, "t/fixed", 0555, "fixed");
    assert_file(box, "t/free", 0644, "free");
    assert_int_equal(folder_mode(box, "t"), 01775);
}

static void unpack_says_when_nothing_is_read_only(void **state)
{
    struct box *box = *state;

    add_file(box, "free", 0, 0, "");

    assert_int_equal(sbx_unpack_has_read_only(reader_of(box)), 0);
}

static void unpack_follows_no_link(void **state)
{
    struct box *box = *state;

    assert_int_equal(symlinkat("/tmp", box->fd, "out"), 0);
    assert_int_equal(symlinkat("target", box->fd, "file"), 0);

    add_file(box, "out/stolen", 0, 0, "x");
    assert_int_equal(sbx_unpack_files(reader_of(box), box->fd, SBX_UNPACK_WRITABLE), -ENOTDIR);
    cr_buf_clear(&box->payload);
    assert_int_equal(sbx_payload_begin(&box->payload), 0);
    add_file(box, "file", 0, 0, "x");
    assert_int_equal(sbx_unpack_files(reader_of(box), box->fd, SBX_UNPACK_WRITABLE), -EEXIST);
    assert_int_equal(faccessat(box->fd, "target", F_OK, 0), -1);
}

static void unpack_refuses_a_path_twice(void **state)
{
    struct box *box = *state;

    add_file(box, "a", 0, 0, "first");
    add_file(box, "a", 0, 0, "second");

    assert_int_equal(sbx_unpack_files(reader_of(box), box->fd, SBX_UNPACK_WRITABLE), -EEXIST);

    assert_file(box, "a", 0644, "first");
}

static void unpack_replaces_what_it_is_told_to(void **state)
{
    struct box *box = *state;

    assert_int_equal(symlinkat("/etc/passwd", box->fd, "link"), 0);
    add_file(box, "file", 0, 0600, "first");
    add_file(box, "file", SBX_PAYLOAD_FILE_REPLACE, 0644, "second");
    add_file(box, "link", SBX_PAYLOAD_FILE_REPLACE, 0, "own");

    assert_int_equal(sbx_unpack_files(reader_of(box), box->fd, SBX_UNPACK_WRITABLE), 0);

    assert_file(box, "file", 0644, "second");
    assert_file(box, "link", 0644, "own");
}

static void unpack_replaces_no_folder(void **state)
{
    struct box *box = *state;

    assert_int_equal(mkdirat(box->fd, "folder", 0755), 0);
    add_file(box, "folder", SBX_PAYLOAD_FILE_REPLACE, 0, "x");

    assert_int_equal(sbx_unpack_files(reader_of(box), box->fd, SBX_UNPACK_WRITABLE), -EISDIR);
}

static void unpack_refuses_a_file_as_a_folder(void **state)
{
    struct box *box = *state;

    add_file(box, "a", 0, 0, "");
    add_file(box, "a/b", 0, 0, "");

    assert_int_equal(sbx_unpack_files(reader_of(box), box->fd, SBX_UNPACK_WRITABLE), -ENOTDIR);
}

static void unpack_refuses_a_malformed_payload(void **state)
{
    struct box *box = *state;

    add_file(box, "../a", 0, 0, "");

    assert_int_equal(sbx_unpack_has_read_only(reader_of(box)), -EPROTO);
    assert_int_equal(sbx_unpack_files(reader_of(box), box->fd, SBX_UNPACK_WRITABLE), -EPROTO);
}

#define BOX_TEST(function) cmocka_unit_test_setup_teardown(function, make_box, remove_box)

int main(void)
{
    const struct CMUnitTest tests[] = {
        BOX_TEST(unpack_writes_files_with_their_modes),
        BOX_TEST(unpack_keeps_the_passes_apart),
        BOX_TEST(unpack_says_when_nothing_is_read_only),
        BOX_TEST(unpack_follows_no_link),
        BOX_TEST(unpack_refuses_a_path_twice),
        BOX_TEST(unpack_replaces_what_it_is_told_to),
        BOX_TEST(unpack_replaces_no_folder),
        BOX_TEST(unpack_refuses_a_file_as_a_folder),
        BOX_TEST(unpack_refuses_a_malformed_payload),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
