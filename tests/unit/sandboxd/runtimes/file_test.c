/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/err.h"
#include "sandboxd/runtimes/file.h"
#include "tests/harness/alloc.h"
#include "tests/harness/test.h"

#include <errno.h>
#include <string.h>

#define HEAD "name = lua\ndescription = Lua\nargv = /usr/bin/lua\n"

static int parse(const char *text, struct sbx_runtime *ret_runtime, struct cr_err *err)
{
    return sbx_runtime_file_parse("x.runtime", text, strlen(text), ret_runtime, err);
}

static void file_gives_every_key(void **state)
{
    static const char text[] = "# comment\n"
                               "\n"
                               "  name\t=  lua5.4 \n"
                               "description = Lua = a language\n"
                               "interpreter = /usr/bin/lua5.4\n"
                               "argv = /usr/bin/env\n"
                               "argv = -i\n"
                               "argv = main.lua\n"
                               "env = LUA_INIT=a=b c\n"
                               "env = X_1=\n"
                               "entry_file = main.lua\n"
                               "report_file = .crisol-lua.xml\n"
                               "needs_files = no\n"
                               "preload = python\n"
                               "rootfs = host\n"
                               "limit.memory_bytes = 67108864\n"
                               "limit.wall_time_ms = 1"; /* and no newline at the end */
    struct sbx_runtime runtime;

    (void)state;
    assert_int_equal(parse(text, &runtime, NULL), 0);

    assert_string_equal(runtime.name, "lua5.4");
    assert_int_equal(runtime.name_line, 3);
    assert_string_equal(runtime.description, "Lua = a language");
    assert_string_equal(runtime.version_path, "/usr/bin/lua5.4");
    assert_string_equal(runtime.argv[0], "/usr/bin/env");
    assert_string_equal(runtime.argv[2], "main.lua");
    assert_null(runtime.argv[3]);
    assert_string_equal(runtime.environment[0], "LUA_INIT=a=b c");
    assert_string_equal(runtime.environment[1], "X_1=");
    assert_null(runtime.environment[2]);
    assert_string_equal(runtime.entry_file, "main.lua");
    assert_string_equal(runtime.report_file, ".crisol-lua.xml");
    assert_string_equal(runtime.preload, "python");
    assert_false(runtime.needs_files);
    assert_int_equal(runtime.defaults.value[SBX_LIMIT_MEMORY], 67108864);
    assert_int_equal(runtime.defaults.value[SBX_LIMIT_WALL_TIME], 1);
    assert_int_equal(runtime.defaults.value[SBX_LIMIT_STACK], 0);
    sbx_runtime_done(&runtime);
    sbx_runtime_done(&runtime);
}

static void file_gives_a_compile_stage_and_a_recipe(void **state)
{
    static const char text[] = HEAD "version = 5.4\nneeds = /usr/include/lua.h\n"
                                    "version_argv = /usr/bin/lua\nversion_argv = -v\n"
                                    "entry_file = main.lua\n"
                                    "compile.argv = /usr/bin/luac\ncompile.argv = main.lua\n"
                                    "compile.output = luac.out\ncompile.output = **/*.lib\n"
                                    "compile.limit.memory_bytes = 67108864\n"
                                    "rootfs = build\nbuild.suite = trixie\n"
                                    "build.package = lua5.4\nbuild.package = lua-socket\n"
                                    "build.requirements = r.txt\nbuild.folder = tree\n"
                                    "smoke.code = a\nsmoke.code = b\nsmoke.output = c\n";
    struct sbx_runtime runtime;

    (void)state;
    assert_int_equal(parse(text, &runtime, NULL), 0);
    assert_string_equal(runtime.name, "lua:5.4");
    assert_string_equal(runtime.needs[0], "/usr/include/lua.h");
    assert_string_equal(runtime.version_argv[1], "-v");
    assert_string_equal(runtime.version_path, "/usr/bin/luac");
    assert_string_equal(runtime.compile[1], "main.lua");
    assert_null(runtime.compile[2]);
    assert_string_equal(runtime.compile_output[1], "**/*.lib");
    assert_int_equal(runtime.compile_limits.value[SBX_LIMIT_MEMORY], 67108864);
    assert_int_equal(runtime.defaults.value[SBX_LIMIT_MEMORY], 0);
    assert_int_equal(runtime.rootfs, SBX_ROOTFS_BUILD);
    assert_string_equal(runtime.recipe.suite, "trixie");
    assert_string_equal(runtime.recipe.packages[1], "lua-socket");
    assert_string_equal(runtime.recipe.requirements, "r.txt");
    assert_string_equal(runtime.recipe.folder, "tree");
    assert_null(runtime.recipe.archive);
    assert_string_equal(runtime.recipe.smoke_code[1], "b");
    assert_string_equal(runtime.recipe.smoke_output, "c");
    sbx_runtime_done(&runtime);
}

static void file_has_sensible_defaults(void **state)
{
    struct sbx_runtime runtime;

    (void)state;
    assert_int_equal(parse(HEAD, &runtime, NULL), 0);
    assert_string_equal(runtime.version_path, "/usr/bin/lua");
    assert_null(runtime.entry_file);
    assert_null(runtime.report_file);
    assert_null(runtime.preload);
    assert_null(runtime.environment[0]);
    assert_null(runtime.compile[0]);
    assert_null(runtime.recipe.packages[0]);
    assert_string_equal(runtime.recipe.suite, "bookworm");
    assert_true(runtime.needs_files);
    sbx_runtime_done(&runtime);
}

static void file_names_the_line_that_is_wrong(void **state)
{
    static const struct {
        const char *text;
        const char *error; /* what the error begins with */
    } cases[] = {
        {"", "x.runtime:0: the file ends without 'name = …'"},
        {"name = a\nargv = /b\n", "x.runtime:2: the file ends without 'description = …'"},
        {"name = a\ndescription = b\n", "x.runtime:2: the file ends without 'argv = …'"},
        {HEAD "colour = red\n", "x.runtime:4: 'colour' is no key: name, description"},
        {HEAD "= red\n", "x.runtime:4: '' is no key"},
        {HEAD "[lua]\n", "x.runtime:4: '[lua]' is not 'key = value'"},
        {HEAD "env =\n", "x.runtime:4: 'env' has no value"},
        {HEAD "name = b\n", "x.runtime:4: name: stands a second time"},
        {"name = Lua\n", "x.runtime:1: name: 'Lua' is no name"},
        {"name = .lua\n", "x.runtime:1: name: '.lua' is no name"},
        {"name = a/b\n", "x.runtime:1: name: 'a/b' is no name"},
        {"name = abcdefghijklmnopqrstuvwxyz0123456\n", "x.runtime:1: name: 'abc"},
        {"argv = lua\n", "x.runtime:1: argv: 'lua' comes first and is no absolute path"},
        {"interpreter = lua\n", "x.runtime:1: interpreter: 'lua' is no absolute path"},
        {"env = LUA\n", "x.runtime:1: env: 'LUA' is not NAME=value"},
        {"env = =x\n", "x.runtime:1: env: '=x' is not NAME=value"},
        {"env = 1A=x\n", "x.runtime:1: env: '1A=x' is not NAME=value"},
        {"env = A-B=x\n", "x.runtime:1: env: 'A-B=x' is not NAME=value"},
        {"env = PATH=/bin\n", "x.runtime:1: env: 'PATH=/bin' is the same for every runtime"},
        {"env = A=1\nenv = AB=1\nenv = A=2\n", "x.runtime:3: env: 'A=2' has its variable a second"},
        {"entry_file = a/b\n", "x.runtime:1: entry_file: 'a/b' is no name of a file"},
        {"entry_file = ..\n", "x.runtime:1: entry_file: '..' is no name of a file"},
        {"entry_file = .crisol-x\n", "x.runtime:1: entry_file: '.crisol-x' is no name of a file"},
        {"report_file = report.xml\n", "x.runtime:1: report_file: 'report.xml' must begin with"},
        {"needs_files = true\n", "x.runtime:1: needs_files: 'true' is neither yes nor no"},
        {"rootfs = /srv\n", "x.runtime:1: rootfs: '/srv' is neither host nor build"},
        {"version = 3:1\n", "x.runtime:1: version: '3:1' is no version"},
        {"needs = bin\n", "x.runtime:1: needs: 'bin' is no absolute path"},
        {"version_argv = go\n", "x.runtime:1: version_argv: 'go' comes first and is no absolute"},
        {"compile.argv = gcc\n", "x.runtime:1: compile.argv: 'gcc' comes first and is no absolute"},
        {"compile.output = ../x\n", "x.runtime:1: compile.output: '../x' "},
        {"compile.limit.ram = 1\n", "x.runtime:1: 'compile.limit.ram' is no limit"},
        {"compile.limit.processes = 513\n", "x.runtime:1: compile.limit.processes: 513 is out of"},
        {"build.package = --help\n", "x.runtime:1: build.package: '--help' has a character"},
        {"build.package = a b\n", "x.runtime:1: build.package: 'a b' has a character"},
        {"build.suite = book;worm\n", "x.runtime:1: build.suite: 'book;worm' has a character"},
        {HEAD "compile.argv = /bin/cc\n", "x.runtime:4: the file ends with one of compile.argv"},
        {HEAD "rootfs = build\n", "x.runtime:4: rootfs: build needs build.package"},
        {HEAD "build.package = a\nbuild.archive = b\n", "x.runtime:5: build.archive: is a whole"},
        {HEAD "smoke.output = a\n", "x.runtime:4: smoke.output: there is no smoke.code"},
        {HEAD "smoke.code = a\n", "x.runtime:4: smoke.code: there is no entry_file"},
        {"limit.ram = 1\n", "x.runtime:1: 'limit.ram' is no limit"},
        {"limit.memory_bytes = 64M\n", "x.runtime:1: limit.memory_bytes: '64M' is no number"},
        {"limit.memory_bytes = -1\n", "x.runtime:1: limit.memory_bytes: '-1' is no number"},
        {"limit.memory_bytes = 18446744073709551616\n", "x.runtime:1: limit.memory_bytes: '1844"},
        {"limit.memory_bytes = 1\n", "x.runtime:1: limit.memory_bytes: 1 is out of range: 4194304"},
        {"limit.processes = 513\n", "x.runtime:1: limit.processes: 513 is out of range: 1 to 512"},
        {"limit.processes = 9\nlimit.processes = 9\n",
         "x.runtime:2: limit.processes: stands a second time"},
        {"name = a\r\n", "x.runtime:1: has the control character 0x0d at byte 9: lines end"},
        {"description = \x1b[31m\n", "x.runtime:1: has the control character 0x1b"},
        {"description = \xff\n", "x.runtime:1: is not UTF-8"},
    };

    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(cases); i++) {
        struct cr_err err = CR_ERR_INIT;
        struct sbx_runtime runtime;

        assert_int_equal(parse(cases[i].text, &runtime, &err), -EINVAL);
        if (strncmp(err.text, cases[i].error, strlen(cases[i].error)) != 0)
            fail_msg("'%s' is not '%s…'", err.text, cases[i].error);
    }
}

/* Fills `text` with `count` lines, each with its number in it, behind a good head. Returns the
 * size.
 */
static size_t repeat(char *text, size_t size, const char *begin, const char *end,
                     unsigned int count)
{
    size_t used = (size_t)snprintf(text, size, "%s", HEAD);

    for (unsigned int i = 0; i < count; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%u%s\n", begin, i, end);
    return used;
}

static void file_is_bounded(void **state)
{
    static char text[SBX_RUNTIME_FILE_MAX + 2];
    struct cr_err err = CR_ERR_INIT;
    struct sbx_runtime runtime;
    size_t size;

    (void)state;
    size = repeat(text, sizeof(text), "argv = a", "", SBX_RUNTIME_LIST_MAX - 1);
    assert_int_equal(sbx_runtime_file_parse("x", text, size, &runtime, &err), 0);
    sbx_runtime_done(&runtime);
    size = repeat(text, sizeof(text), "argv = a", "", SBX_RUNTIME_LIST_MAX);
    assert_int_equal(sbx_runtime_file_parse("x", text, size, &runtime, &err), -EINVAL);
    assert_string_equal(err.text, "x:67: argv: more than 64 lines");
    size = repeat(text, sizeof(text), "env = A", "=", SBX_RUNTIME_LIST_MAX + 1);
    assert_int_equal(sbx_runtime_file_parse("x", text, size, &runtime, &err), -EINVAL);
    assert_string_equal(err.text, "x:68: env: more than 64 lines");

    memset(text, '#', sizeof(text));
    assert_int_equal(sbx_runtime_file_parse("x", text, SBX_RUNTIME_LINE_MAX + 1, &runtime, &err),
                     -EINVAL);
    assert_string_equal(err.text, "x:1: 1025 bytes are more than the maximum of a line, 1024");
    assert_int_equal(sbx_runtime_file_parse("x", text, SBX_RUNTIME_FILE_MAX + 1, &runtime, &err),
                     -EINVAL);
    assert_string_equal(err.text, "x: 16385 bytes are more than the maximum of 16384");
}

/* NUL is a control character too, and no end of the text. */
static void file_refuses_nul(void **state)
{
    static const char text[] = HEAD "#\0\n";
    struct cr_err err = CR_ERR_INIT;
    struct sbx_runtime runtime;

    (void)state;
    assert_int_equal(sbx_runtime_file_parse("x", text, sizeof(text) - 1, &runtime, &err), -EINVAL);
    assert_string_equal(err.text, "x:4: has the control character 0x00 at byte 2");
}

static void file_survives_out_of_memory(void **state)
{
    struct cr_err err = CR_ERR_INIT;
    struct sbx_runtime runtime;

    (void)state;
    test_fail_alloc(0);
    assert_int_equal(parse(HEAD, &runtime, &err), -ENOMEM);
    assert_int_equal(test_stop_alloc(), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(file_gives_every_key),
        cmocka_unit_test(file_gives_a_compile_stage_and_a_recipe),
        cmocka_unit_test(file_has_sensible_defaults),
        cmocka_unit_test(file_names_the_line_that_is_wrong),
        cmocka_unit_test(file_is_bounded),
        cmocka_unit_test(file_refuses_nul),
        cmocka_unit_test(file_survives_out_of_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
