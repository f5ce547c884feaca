/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/err.h"
#include "sandboxd/supervisor/token.h"
#include "tests/harness/test.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include <sys/stat.h>

static void token_is_kept_sealed_and_read_from_closed_files_only(void **state)
{
    char path[TEST_PATH_SIZE];
    int file_fd = test_file_make(path, sizeof(path));
    struct cr_err err = CR_ERR_INIT;
    int fds = test_count_fds();
    char content[32] = "";
    int fd;

    (void)state;
    assert_int_equal(write(file_fd, "secret-token-1234\n", 18), 18);
    fd = sbx_token_open(path, &err);
    assert_true(fd >= 0);
    assert_int_equal(pread(fd, content, sizeof(content), 0), 18);
    assert_string_equal(content, "secret-token-1234\n");
    assert_int_equal(fcntl(fd, F_GET_SEALS),
                     F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL);
    assert_int_equal(close(fd), 0);

    assert_int_equal(fchmod(file_fd, 0640), 0);
    assert_int_equal(sbx_token_open(path, &err), -EPERM);
    assert_non_null(strstr(err.text, "chmod 600"));
    assert_int_equal(unlink(path), 0);
    assert_int_equal(sbx_token_open(path, &err), -ENOENT);
    assert_int_equal(sbx_token_open("/", &err), -EINVAL);
    assert_int_equal(test_count_fds(), fds);
    assert_int_equal(close(file_fd), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(token_is_kept_sealed_and_read_from_closed_files_only),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
