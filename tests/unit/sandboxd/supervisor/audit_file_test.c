/* SPDX-License-Identifier: Apache-2.0 */
#include "common/err.h"
#include "sandboxd/supervisor/audit_file.h"
#include "tests/harness/test.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sys/stat.h>

static void audit_log_is_made_private_and_appended_to(void **state)
{
    char folder[TEST_PATH_SIZE];
    char path[64];
    struct cr_err err = CR_ERR_INIT;
    int fds = test_count_fds();
    struct stat info;

    (void)state;
    test_folder_make(folder, sizeof(folder));
    (void)snprintf(path, sizeof(path), "%s/log", folder);
    for (int i = 0; i < 2; i++) { /* made, then found */
        int fd = sbx_audit_file_open(path, &err);

        assert_true(fd >= 0);
        assert_int_equal(write(fd, "line\n", 5), 5);
        assert_int_equal(close(fd), 0);
    }
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_mode & 07777, 0600);
    assert_int_equal(info.st_size, 10);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(folder), 0);
    assert_int_equal(test_count_fds(), fds);
}

static void audit_log_is_no_link_no_pipe_and_closed_to_others(void **state)
{
    char folder[TEST_PATH_SIZE];
    char path[64];
    struct cr_err err = CR_ERR_INIT;
    int fds = test_count_fds();

    (void)state;
    test_folder_make(folder, sizeof(folder));
    (void)snprintf(path, sizeof(path), "%s/log", folder);
    assert_int_equal(symlink("/dev/null", path), 0);
    assert_int_equal(sbx_audit_file_open(path, &err), -ELOOP);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_true(sbx_audit_file_open(path, &err) < 0); /* and does not wait for a reader */
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mknod(path, S_IFREG | 0600, 0), 0);
    assert_int_equal(chmod(path, 0644), 0);
    assert_int_equal(sbx_audit_file_open(path, &err), -EPERM);
    assert_non_null(strstr(err.text, "chmod 600"));
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(folder), 0);
    assert_int_equal(test_count_fds(), fds);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(audit_log_is_made_private_and_appended_to),
        cmocka_unit_test(audit_log_is_no_link_no_pipe_and_closed_to_others),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
