/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/buf.h"
#include "sandboxd/docker/tar.h"
#include "tests/harness/test.h"

#include <errno.h>
#include <string.h>

static unsigned int checksum(const uint8_t *header)
{
    unsigned int sum = 0;

    for (size_t i = 0; i < 512; i++)
        sum += i >= 148 && i < 156 ? ' ' : header[i];
    return sum;
}

static void a_file_is_a_header_and_whole_blocks(void **state)
{
    CR_AUTO_BUF struct cr_buf tar = {0};
    const char content[600] = "content";

    (void)state;
    cr_buf_init(&tar, 1 << 20);
    assert_int_equal(sbx_tar_add(&tar, "sandbox-init", 0755, content, sizeof(content)), 0);
    assert_int_equal(sbx_tar_add(&tar, "empty", 0644, NULL, 0), 0);
    assert_int_equal(sbx_tar_end(&tar), 0);
    assert_int_equal(tar.size, (1 + 2 + 1 + 2) * 512);
    assert_string_equal((const char *)tar.data, "sandbox-init");
    assert_string_equal((const char *)tar.data + 100, "0000755");
    assert_string_equal((const char *)tar.data + 124, "00000001130"); /* 600 */
    assert_memory_equal(tar.data + 257,
                        "ustar\0"
                        "00",
                        8);
    assert_int_equal(strtoul((const char *)tar.data + 148, NULL, 8), checksum(tar.data));
    assert_memory_equal(tar.data + 512, content, sizeof(content));
}

static void long_names_and_full_buffers_are_refused(void **state)
{
    CR_AUTO_BUF struct cr_buf tar = {0};
    char name[101];

    (void)state;
    memset(name, 'n', sizeof(name) - 1);
    name[100] = '\0';
    cr_buf_init(&tar, 600);
    assert_int_equal(sbx_tar_add(&tar, name, 0644, "", 0), -EINVAL);
    assert_int_equal(sbx_tar_add(&tar, "file", 0644, name, sizeof(name)), -ENOSPC);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_is_a_header_and_whole_blocks),
        cmocka_unit_test(long_names_and_full_buffers_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
