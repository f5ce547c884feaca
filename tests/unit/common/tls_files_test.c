/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/err.h"
#include "common/tls_files.h"
#include "tests/harness/test.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sys/mman.h>
#include <sys/stat.h>

struct place {
    char folder[32];
    char texts[CR_TLS_PART_COUNT][64];
    struct cr_tls_paths paths;
    int fds_before;
};

static void write_text(const char *path, const char *text, mode_t mode)
{
    CR_AUTO_CLOSE int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);

    assert_true(fd >= 0);
    assert_int_equal(fchmod(fd, mode), 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
}

static void set_up(struct place *place)
{
    static const char *const names[] = {"tls.crt", "tls.key", "ca.crt"};

    memset(place, 0, sizeof(*place));
    place->fds_before = test_count_fds();
    test_folder_make(place->folder, sizeof(place->folder));
    for (size_t i = 0; i < CR_TLS_PART_COUNT; i++) {
        (void)snprintf(place->texts[i], sizeof(place->texts[i]), "%s/%s", place->folder, names[i]);
        place->paths.path[i] = place->texts[i];
        write_text(place->texts[i], names[i], 0600);
    }
}

static void tear_down(struct place *place)
{
    for (size_t i = 0; i < CR_TLS_PART_COUNT; i++)
        (void)unlink(place->texts[i]);
    assert_int_equal(rmdir(place->folder), 0);
    assert_int_equal(test_count_fds(), place->fds_before);
}

static void tls_files_arrive_whole_and_sealed(void **state)
{
    struct cr_tls_material material = {{NULL}};
    struct cr_err err = CR_ERR_INIT;
    struct place place;
    int fd;

    (void)state;
    set_up(&place);

    fd = cr_tls_files_open(&place.paths, &err);

    assert_true(fd >= 0);
    assert_true(write(fd, "x", 1) < 0);
    for (int i = 0; i < 2; i++) { /* a second reader begins at the begin */
        assert_int_equal(cr_tls_material_read(fd, &material, &err), 0);
        assert_string_equal(material.part[CR_TLS_CERTIFICATE], "tls.crt");
        assert_string_equal(material.part[CR_TLS_KEY], "tls.key");
        assert_string_equal(material.part[CR_TLS_AUTHORITY], "ca.crt");
        cr_tls_material_done(&material);
    }
    (void)close(fd);
    tear_down(&place);
}

static void tls_files_that_are_not_named_are_not_there(void **state)
{
    struct cr_tls_material material = {{NULL}};
    struct place place;
    int fd;

    (void)state;
    set_up(&place);
    place.paths.path[CR_TLS_KEY] = NULL;
    place.paths.path[CR_TLS_CERTIFICATE] = "";

    fd = cr_tls_files_open(&place.paths, NULL);

    assert_int_equal(cr_tls_material_read(fd, &material, NULL), 0);
    assert_null(material.part[CR_TLS_CERTIFICATE]);
    assert_null(material.part[CR_TLS_KEY]);
    assert_string_equal(material.part[CR_TLS_AUTHORITY], "ca.crt");
    cr_tls_material_done(&material);
    (void)close(fd);
    tear_down(&place);
}

static void tls_files_refuse_a_key_that_others_can_read(void **state)
{
    struct cr_err err = CR_ERR_INIT;
    struct place place;
    int fd;

    (void)state;
    set_up(&place);
    assert_int_equal(chmod(place.texts[CR_TLS_KEY], 0644), 0);
    assert_int_equal(cr_tls_files_open(&place.paths, &err), -EPERM);
    assert_non_null(strstr(err.text, "chmod 600"));
    /* As fsGroup makes it in a volume of Kubernetes. */
    assert_int_equal(chmod(place.texts[CR_TLS_KEY], 0440), 0);
    fd = cr_tls_files_open(&place.paths, &err);
    assert_true(fd >= 0);
    (void)close(fd);
    tear_down(&place);
}

static void tls_files_refuse_what_is_no_file_or_too_large(void **state)
{
    struct place place;

    (void)state;
    set_up(&place);
    place.paths.path[CR_TLS_AUTHORITY] = place.folder;
    assert_int_equal(cr_tls_files_open(&place.paths, NULL), -EINVAL);
    place.paths.path[CR_TLS_AUTHORITY] = "/nowhere/ca.crt";
    assert_int_equal(cr_tls_files_open(&place.paths, NULL), -ENOENT);
    place.paths.path[CR_TLS_AUTHORITY] = place.texts[CR_TLS_AUTHORITY];
    assert_int_equal(truncate(place.texts[CR_TLS_AUTHORITY], (off_t)CR_TLS_PART_MAX + 1), 0);
    assert_int_equal(cr_tls_files_open(&place.paths, NULL), -EFBIG);
    tear_down(&place);
}

static void tls_files_stamp_changes_with_each_of_them(void **state)
{
    struct place place;
    uint64_t before;

    (void)state;
    set_up(&place);
    before = cr_tls_files_stamp(&place.paths);
    assert_int_not_equal(before, 0);
    assert_int_equal(cr_tls_files_stamp(&place.paths), before);
    for (size_t i = 0; i < CR_TLS_PART_COUNT; i++) {
        write_text(place.texts[i], "another", 0600);
        assert_int_not_equal(cr_tls_files_stamp(&place.paths), before);
        before = cr_tls_files_stamp(&place.paths);
    }
    assert_int_equal(unlink(place.texts[CR_TLS_KEY]), 0);
    assert_int_equal(cr_tls_files_stamp(&place.paths), 0);
    tear_down(&place);
}

static void tls_material_refuses_what_was_made_by_nobody_here(void **state)
{
    static const uint32_t bad[][4] = {{1, 0, 0, 0}, {UINT32_MAX, 0, 0, 0}, {4, 4, 0, 0}};
    struct cr_tls_material material = {{NULL}};
    int fd = memfd_create("test", MFD_CLOEXEC);

    (void)state;
    assert_int_equal(cr_tls_material_read(fd, &material, NULL), -EPROTO);
    for (size_t i = 0; i < CR_ARRAY_SIZE(bad); i++) {
        assert_int_equal(pwrite(fd, bad[i], sizeof(bad[i]), 0), sizeof(bad[i]));
        assert_int_equal(cr_tls_material_read(fd, &material, NULL), -EPROTO);
    }
    assert_null(material.part[0]);
    (void)close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tls_files_arrive_whole_and_sealed),
        cmocka_unit_test(tls_files_that_are_not_named_are_not_there),
        cmocka_unit_test(tls_files_refuse_a_key_that_others_can_read),
        cmocka_unit_test(tls_files_refuse_what_is_no_file_or_too_large),
        cmocka_unit_test(tls_files_stamp_changes_with_each_of_them),
        cmocka_unit_test(tls_material_refuses_what_was_made_by_nobody_here),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
