/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/buf.h"
#include "common/err.h"
#include "sandboxd/runtimes/bundle.h"
#include "tests/harness/test.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sys/mman.h>

#define TEXT(name) "name = " name "\ndescription = d\nargv = /bin/" name "\n"
#define SMALL "small.runtime", TEXT("small"), strlen(TEXT("small"))
#define ALSO "also.runtime", TEXT("also"), strlen(TEXT("also"))

#define ROOT "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define SHIPPED 11

/* Two runtimes that are not built in, one with a root file system of its own. */
static void fill(struct cr_buf *bundle)
{
    cr_buf_init(bundle, SBX_BUNDLE_MAX);
    assert_int_equal(sbx_bundle_add(bundle, SMALL, NULL), 0);
    assert_int_equal(sbx_bundle_add(bundle, ALSO, ROOT), 0);
}

static void bundle_gives_back_what_was_added(void **state)
{
    struct sbx_runtime_table table;
    CR_AUTO_BUF struct cr_buf bundle;

    (void)state;
    fill(&bundle);
    sbx_runtime_table_init(&table);
    assert_int_equal(sbx_bundle_read(bundle.data, bundle.size, &table, NULL), 0);
    assert_int_equal(table.count, SHIPPED + 2);
    assert_string_equal(table.list[0].name, "also");
    assert_string_equal(table.list[0].root, ROOT);
    assert_string_equal(table.list[SHIPPED + 1].name, "small");
    assert_string_equal(table.list[SHIPPED + 1].root, "");
    sbx_runtime_table_done(&table);
}

static void bundle_refuses_every_cut(void **state)
{
    struct sbx_runtime_table table;
    CR_AUTO_BUF struct cr_buf bundle;
    size_t whole;

    (void)state;
    fill(&bundle);
    whole = sizeof(struct sbx_bundle_header) + strlen("small.runtime") + strlen(TEXT("small"));
    for (size_t size = 0; size < bundle.size; size++) {
        struct cr_err err = CR_ERR_INIT;
        /* Exactly as large, so that a sanitizer sees a byte too many. */
        CR_AUTO_FREE char *piece = malloc(size > 0 ? size : 1);

        assert_non_null(piece);
        memcpy(piece, bundle.data, size);
        sbx_runtime_table_init(&table);
        assert_int_equal(sbx_bundle_read(piece, size, &table, &err),
                         size == 0 || size == whole ? 0 : -EPROTO);
        sbx_runtime_table_done(&table);
    }
}

static void bundle_refuses_what_is_too_large(void **state)
{
    static char text[SBX_RUNTIME_FILE_MAX + 1];
    CR_AUTO_BUF struct cr_buf bundle;
    char name[SBX_RUNTIME_FILE_NAME_MAX + 2];

    (void)state;
    cr_buf_init(&bundle, SBX_BUNDLE_MAX);
    memset(name, 'n', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    assert_int_equal(sbx_bundle_add(&bundle, "x", text, sizeof(text), NULL), -ENOSPC);
    assert_int_equal(sbx_bundle_add(&bundle, name, text, 1, NULL), -ENOSPC);
    assert_int_equal(bundle.size, 0);
}

/* Last, as the table of this process keeps them. */
static void bundle_reaches_the_table_of_the_process(void **state)
{
    const uint64_t before = sbx_runtimes_digest();
    CR_AUTO_CLOSE int fd = memfd_create("bundle", MFD_CLOEXEC);
    CR_AUTO_BUF struct cr_buf bundle;
    const struct sbx_runtime *list;
    size_t count;

    (void)state;
    fill(&bundle);
    assert_int_equal(write(fd, bundle.data, bundle.size), bundle.size);
    assert_int_equal(sbx_runtimes_load(fd, NULL), 0); /* wherever the descriptor stands */
    list = sbx_runtimes(&count);
    assert_int_equal(count, SHIPPED + 2);
    assert_int_equal(sbx_runtime_find("small"), SHIPPED + 1);
    assert_string_equal(list[SHIPPED + 1].argv[0], "/bin/small");
    assert_true(sbx_runtimes_digest() != before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bundle_gives_back_what_was_added),
        cmocka_unit_test(bundle_refuses_every_cut),
        cmocka_unit_test(bundle_refuses_what_is_too_large),
        cmocka_unit_test(bundle_reaches_the_table_of_the_process),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
