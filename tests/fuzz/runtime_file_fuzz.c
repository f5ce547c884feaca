/* SPDX-License-Identifier: Apache-2.0 */
#include "common/buf.h"
#include "common/err.h"
#include "sandboxd/runtimes/bundle.h"
#include "tests/fuzz/fuzz.h"

#include <string.h>

static size_t count_of(const char *const *list)
{
    size_t count = 0;

    while (list[count])
        count++;
    FUZZ_CHECK(count <= SBX_RUNTIME_LIST_MAX);
    return count;
}

static void check_lists(const struct sbx_runtime *runtime)
{
    const size_t variables = count_of(runtime->environment);

    FUZZ_CHECK(count_of(runtime->argv) > 0);
    FUZZ_CHECK(runtime->argv[0][0] == '/');
    for (size_t i = 0; i < variables; i++)
        FUZZ_CHECK(strchr(runtime->environment[i], '=') > runtime->environment[i]);
}

static void check_runtime(const struct sbx_runtime *runtime)
{
    FUZZ_CHECK(strlen(runtime->name) - 1 < 2 * SBX_RUNTIME_NAME_MAX + 1);
    FUZZ_CHECK(count_of(runtime->needs) <= SBX_RUNTIME_LIST_MAX);
    FUZZ_CHECK((count_of(runtime->compile) > 0) == (count_of(runtime->compile_output) > 0));
    FUZZ_CHECK(count_of(runtime->compile) == 0 || runtime->compile[0][0] == '/');
    for (size_t i = 0; runtime->recipe.packages[i]; i++)
        FUZZ_CHECK(runtime->recipe.packages[i][0] != '-' &&
                   !strpbrk(runtime->recipe.packages[i], " ,/"));
    FUZZ_CHECK(strlen(runtime->description) > 0);
    FUZZ_CHECK(runtime->version_path[0] == '/');
    FUZZ_CHECK(!runtime->entry_file || !strchr(runtime->entry_file, '/'));
    check_lists(runtime);
    for (size_t i = 0; i < SBX_LIMIT_COUNT; i++)
        FUZZ_CHECK(runtime->defaults.value[i] <= sbx_maximum_limits.value[i] &&
                   runtime->compile_limits.value[i] <= sbx_maximum_limits.value[i]);
}

/* What one process took, all take: the supervisor reads the files, the others its bundle. */
static void check_bundle(const char *text, size_t size)
{
    struct sbx_runtime_table table;
    struct cr_buf bundle;
    size_t before;

    cr_buf_init(&bundle, SBX_BUNDLE_MAX);
    sbx_runtime_table_init(&table);
    before = table.count;
    FUZZ_CHECK(sbx_bundle_add(&bundle, "fuzz.runtime", text, size, NULL) == 0);
    if (sbx_bundle_read(bundle.data, bundle.size, &table, NULL) == 0)
        FUZZ_CHECK(table.count == before + 1);
    else
        FUZZ_CHECK(table.count == before);
    sbx_runtime_table_done(&table);
    cr_buf_done(&bundle);
}

/* A runtime file, and the same bytes as a bundle. What is refused names the file. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct sbx_runtime_table table;
    struct sbx_runtime runtime;
    struct cr_err err = CR_ERR_INIT;

    if (sbx_runtime_file_parse("fuzz.runtime", (const char *)data, size, &runtime, &err) == 0) {
        check_runtime(&runtime);
        sbx_runtime_done(&runtime);
        check_bundle((const char *)data, size);
    } else {
        FUZZ_CHECK(strncmp(err.text, "fuzz.runtime:", strlen("fuzz.runtime:")) == 0);
    }
    sbx_runtime_table_init(&table);
    (void)sbx_bundle_read(data, size, &table, &err);
    sbx_runtime_table_done(&table);
    return 0;
}
