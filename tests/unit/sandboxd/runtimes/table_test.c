/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/err.h"
#include "sandboxd/runtimes/table.h"
#include "sandboxd/wire/payload.h"
#include "tests/harness/test.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include <sys/stat.h>
#include <sys/wait.h>

#define ARGV_MAX 32

static void table_is_sorted_and_complete(void **state)
{
    size_t count;
    const struct sbx_runtime *runtimes = sbx_runtimes(&count);

    (void)state;
    assert_int_equal(count, 11);
    for (size_t i = 0; i < count; i++) {
        if (i > 0)
            assert_true(strcmp(runtimes[i - 1].name, runtimes[i].name) < 0);
        assert_int_equal(sbx_runtime_find(runtimes[i].name), i);
        assert_int_equal(runtimes[i].argv[0][0], '/');
        assert_int_equal(runtimes[i].version_path[0], '/');
        assert_true(sbx_path_is_safe(runtimes[i].entry_file, strlen(runtimes[i].entry_file)));
        assert_non_null(runtimes[i].environment);
        assert_non_null(runtimes[i].description);
    }
    assert_int_equal(sbx_runtime_find("cobol"), -ENOENT);
    assert_int_equal(sbx_runtime_find(""), -ENOENT);
}

static void table_defaults_lie_within_the_maxima(void **state)
{
    (void)state;

    for (size_t i = 0; i < SBX_LIMIT_COUNT; i++) {
        assert_true(sbx_default_limits.value[i] > 0);
        assert_true(sbx_default_limits.value[i] <= sbx_maximum_limits.value[i]);
        assert_true(sbx_compile_limits.value[i] >= sbx_minimum_limits.value[i]);
        assert_true(sbx_compile_limits.value[i] <= sbx_maximum_limits.value[i]);
    }
    /* A full workspace is ENOSPC and not an OOM kill: half of the memory is left for the program.
     */
    assert_true(sbx_default_limits.value[SBX_LIMIT_WORKSPACE_BYTES] * 2 <=
                sbx_default_limits.value[SBX_LIMIT_MEMORY]);
}

static void table_minima_lie_below_the_defaults(void **state)
{
    (void)state;

    for (size_t i = 0; i < SBX_LIMIT_COUNT; i++) {
        assert_true(sbx_minimum_limits.value[i] > 0);
        assert_true(sbx_minimum_limits.value[i] <= sbx_default_limits.value[i]);
    }
}

#define HEAD(name) "name = " name "\ndescription = d\n"
#define PYTHON                                                                                     \
    "argv = /usr/bin/python3\nargv = -s\nargv = -E\nargv = -B\nargv = -u\nargv = main.py\n"

static int table_add(struct sbx_runtime_table *table, const char *text, struct cr_err *err)
{
    return sbx_runtime_table_add(table, "x.runtime", text, strlen(text), NULL, err);
}

/* Nothing is added, and the error begins with `error`. */
static void must_refuse(struct sbx_runtime_table *table, const char *text, const char *error)
{
    const size_t count = table->count;
    struct cr_err err = CR_ERR_INIT;

    assert_int_equal(table_add(table, text, &err), -EINVAL);
    assert_int_equal(table->count, count);
    if (strncmp(err.text, error, strlen(error)) != 0)
        fail_msg("'%s' is not '%s…'", err.text, error);
}

static void table_takes_each_name_once(void **state)
{
    struct sbx_runtime_table table;

    (void)state;
    sbx_runtime_table_init(&table);
    must_refuse(&table, HEAD("python") "argv = /bin/x\n",
                "x.runtime:1: name: there is a runtime 'python' already");
    assert_int_equal(table_add(&table, HEAD("lua") "argv = /bin/x\n", NULL), 0);
    must_refuse(&table, "\n" HEAD("lua") "argv = /bin/x\n",
                "x.runtime:2: name: there is a runtime 'lua' already");
    assert_string_equal(table.list[5].name, "lua"); /* sorted: behind java */
    sbx_runtime_table_done(&table);
    assert_int_equal(table.count, 0);
}

#define ROOT "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define BUILD "argv = /bin/x\nrootfs = build\nbuild.package = x\n"

static int add_root(struct sbx_runtime_table *table, const char *text, const char *root)
{
    return sbx_runtime_table_add(table, "x.runtime", text, strlen(text), root, NULL);
}

static void table_wants_a_root_where_one_is_to_be_built(void **state)
{
    struct sbx_runtime_table table;

    (void)state;
    sbx_runtime_table_init(&table);
    must_refuse(&table, HEAD("lua") BUILD,
                "x.runtime:1: name: 'lua' has a root file system of its own that was not built");
    assert_int_equal(add_root(&table, HEAD("lua") BUILD, "0123"), -EINVAL);
    assert_int_equal(add_root(&table, HEAD("lua") BUILD, ROOT), 0);
    assert_string_equal(table.list[sbx_runtime_find("java") + 1].name, "lua");
    assert_string_equal(table.list[sbx_runtime_find("java") + 1].root, ROOT);
    sbx_runtime_table_done(&table);
}

static void table_lets_a_build_replace_what_is_built_in(void **state)
{
    const size_t count = 11;
    struct sbx_runtime_table table;
    const char *text;
    size_t size;

    (void)state;
    sbx_runtime_table_init(&table);
    assert_int_equal(sbx_runtime_shipped("c", &text, &size), 0);
    assert_int_equal(sbx_runtime_table_add(&table, "c", text, size, ROOT, NULL), 0);
    assert_int_equal(table.count, count);
    assert_string_equal(table.list[sbx_runtime_find("c")].root, ROOT);
    /* Not twice, and not those whose interpreters wait. */
    assert_int_equal(sbx_runtime_table_add(&table, "c", text, size, ROOT, NULL), -EINVAL);
    assert_int_equal(sbx_runtime_shipped("python", &text, &size), 0);
    assert_int_equal(sbx_runtime_table_add(&table, "python", text, size, ROOT, NULL), -EINVAL);
    assert_int_equal(sbx_runtime_shipped("cobol", &text, &size), -ENOENT);
    /* Two versions side by side; what has a root of its own keeps nobody waiting. */
    assert_int_equal(
        add_root(&table, HEAD("python") "version = 3.12\npreload = python\n" PYTHON, ROOT), 0);
    assert_int_equal(add_root(&table, HEAD("python") "version = 3.13\n" PYTHON, ROOT), 0);
    assert_int_equal(table.count, count + 2);
    for (size_t i = 0; i < table.count; i++) {
        if (strcmp(table.list[i].name, "python:3.12") == 0)
            assert_null(table.list[i].preload);
    }
    sbx_runtime_table_done(&table);
}

static void table_takes_so_many_and_no_more(void **state)
{
    struct sbx_runtime_table table;
    char text[64];

    (void)state;
    sbx_runtime_table_init(&table);
    while (table.count < SBX_RUNTIMES_MAX) {
        (void)snprintf(text, sizeof(text), HEAD("r%zu") "argv = /x\n", table.count);
        assert_int_equal(table_add(&table, text, NULL), 0);
    }
    must_refuse(&table, HEAD("more") "argv = /x\n",
                "x.runtime:1: is one runtime more than the maximum of 31");
    sbx_runtime_table_done(&table);
}

static void table_preloads_only_what_starts_alike(void **state)
{
    struct sbx_runtime_table table;

    (void)state;
    sbx_runtime_table_init(&table);
    must_refuse(&table, HEAD("a") "preload = shell\nargv = /bin/sh\nargv = main.sh\n",
                "x.runtime:3: preload: 'shell' has no interpreters that wait");
    must_refuse(&table, HEAD("a") "preload = a\nargv = /bin/sh\n",
                "x.runtime:3: preload: 'a' has no interpreters that wait");
    must_refuse(&table, HEAD("a") "preload = python\nentry_file = main.py\n" PYTHON "argv = x\n",
                "x.runtime:3: preload: the interpreters of 'python' were started with its own");
    must_refuse(&table, HEAD("a") "preload = python\nentry_file = main.py\n" PYTHON "env = A=1\n",
                "x.runtime:3: preload: the interpreters of 'python' were started with its own");
    must_refuse(&table, HEAD("a") "preload = python\n" PYTHON,
                "x.runtime:3: preload: the interpreters of 'python' were started with its own");
    assert_int_equal(
        table_add(&table, HEAD("a") "preload = python\nentry_file = main.py\n" PYTHON, NULL), 0);
    /* Of what is preloaded itself only what is built in is a model. */
    must_refuse(&table, HEAD("b") "preload = a\nentry_file = main.py\n" PYTHON,
                "x.runtime:3: preload: 'a' has no interpreters that wait");
    sbx_runtime_table_done(&table);
}

static void table_digest_is_stable(void **state)
{
    (void)state;
    assert_int_not_equal(sbx_runtimes_digest(), 0);
    assert_int_equal(sbx_runtimes_digest(), sbx_runtimes_digest());
}

static void table_report_is_what_the_argv_writes(void **state)
{
    size_t count;
    const struct sbx_runtime *runtime = &sbx_runtimes(&count)[sbx_runtime_find("pytest")];
    size_t found = 0;

    (void)state;
    for (size_t i = 0; runtime->argv[i]; i++)
        found += strcmp(runtime->argv[i], "--junitxml=/workspace/" SBX_PYTEST_REPORT) == 0;

    assert_int_equal(found, 1);
    assert_string_equal(runtime->report_file, SBX_PYTEST_REPORT);
}

static void table_environment_steers_no_interpreter(void **state)
{
    (void)state;

    for (const char *const *entry = sbx_environment; *entry; entry++) {
        assert_non_null(strchr(*entry, '='));
        assert_int_not_equal(strncmp(*entry, "PYTHON", 6), 0);
        assert_int_not_equal(strncmp(*entry, "LD_", 3), 0);
    }
}

/* A folder that stands for /workspace. */
struct place {
    char path[64];
};

static int make_place(void **state)
{
    static struct place place;

    test_folder_make(place.path, sizeof(place.path));
    *state = &place;
    return 0;
}

static void place_write(const struct place *place, const char *name, const char *text)
{
    CR_AUTO_FCLOSE FILE *file = NULL;
    char path[256];

    (void)snprintf(path, sizeof(path), "%s/%s", place->path, name);
    file = fopen(path, "we");
    assert_true(file && fputs(text, file) >= 0);
}

/* Returns the size; `text` is terminated. */
static size_t place_read(const struct place *place, const char *name, char *text, size_t room)
{
    CR_AUTO_FCLOSE FILE *file = NULL;
    char path[256];
    size_t size;

    (void)snprintf(path, sizeof(path), "%s/%s", place->path, name);
    file = fopen(path, "re");
    size = file ? fread(text, 1, room - 1, file) : 0;
    text[size] = 0;
    return size;
}

static int remove_place(void **state)
{
    const struct place *place = *state;

    return test_remove_tree(place->path);
}

/* The argument with the folder of the test in place of /workspace. */
static char *moved(const struct place *place, const char *argument)
{
    const char *found = strstr(argument, "/workspace");
    char *text = NULL;

    if (!found)
        return strdup(argument);
    if (asprintf(&text, "%.*s%s%s", (int)(found - argument), argument, place->path,
                 found + strlen("/workspace")) < 0)
        return NULL;
    return text;
}

static void run_child(const struct place *place, const struct sbx_runtime *runtime, char **envp)
{
    char *argv[ARGV_MAX] = {NULL};
    size_t count = 0;
    int out;

    for (; runtime->argv[count]; count++)
        argv[count] = moved(place, runtime->argv[count]);
    out = chdir(place->path) == 0 ? open("out.log", O_WRONLY | O_CREAT | O_TRUNC, 0644) : -1;
    if (out < 0 || dup2(out, 1) < 0 || dup2(out, 2) < 0)
        _exit(126);
    (void)execve(argv[0], argv, envp);
    _exit(127);
}

/* Runs the runtime outside of any sandbox; returns its exit code and leaves out.log behind. */
static int run(const struct place *place, const char *name)
{
    size_t count;
    const struct sbx_runtime *runtime = &sbx_runtimes(&count)[sbx_runtime_find(name)];
    char *envp[ARGV_MAX] = {NULL};
    size_t at = 0;
    int status;
    pid_t pid;

    for (size_t i = 0; sbx_environment[i]; i++)
        envp[at++] = moved(place, sbx_environment[i]);
    for (size_t i = 0; runtime->environment[i]; i++)
        envp[at++] = moved(place, runtime->environment[i]);
    pid = fork();
    if (pid == 0)
        run_child(place, runtime, envp);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    for (size_t i = 0; i < at; i++)
        free(envp[i]);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void skip_without(const char *path)
{
    if (access(path, X_OK) < 0)
        skip();
}

static void python_imports_the_other_files(void **state)
{
    const struct place *place = *state;
    char text[256];

    skip_without("/usr/bin/python3");
    place_write(place, "helper.py", "VALUE = 42\n");
    place_write(place, "main.py", "import helper, sys\nprint(helper.VALUE)\nsys.exit(7)\n");

    assert_int_equal(run(place, "python"), 7);

    (void)place_read(place, "out.log", text, sizeof(text));
    assert_string_equal(text, "42\n");
}

static void python_leaves_no_cache_and_buffers_nothing(void **state)
{
    const struct place *place = *state;
    char text[256];
    char path[256];

    skip_without("/usr/bin/python3");
    place_write(place, "helper.py", "");
    place_write(place, "main.py", "import helper, os\nprint('kept')\nos._exit(0)\n");

    assert_int_equal(run(place, "python"), 0);

    (void)place_read(place, "out.log", text, sizeof(text));
    assert_string_equal(text, "kept\n");
    (void)snprintf(path, sizeof(path), "%s/__pycache__", place->path);
    assert_int_equal(access(path, F_OK), -1);
}

static void shell_runs_code_and_gives_its_exit_code(void **state)
{
    const struct place *place = *state;
    char text[256];

    place_write(place, "main.sh", "echo hi; exit 3");

    assert_int_equal(run(place, "shell"), 3);

    (void)place_read(place, "out.log", text, sizeof(text));
    assert_string_equal(text, "hi\n");
}

static void pytest_imports_the_solution_and_writes_the_report(void **state)
{
    const struct place *place = *state;
    char text[4096];

    skip_without("/usr/bin/pytest");
    place_write(place, "solution.py", "def add(a, b):\n    return a + b\n");
    place_write(place, "test_solution.py",
                "from solution import add\n"
                "def test_good():\n    assert add(1, 2) == 3\n"
                "def test_bad():\n    assert add(1, 2) == 4\n");

    assert_int_equal(run(place, "pytest"), 1);

    (void)place_read(place, SBX_PYTEST_REPORT, text, sizeof(text));
    assert_non_null(strstr(text, "errors=\"0\" failures=\"1\" skipped=\"0\" tests=\"2\""));
    assert_non_null(strstr(text, "name=\"test_bad\""));
}

static void pytest_is_not_steered_by_files(void **state)
{
    const struct place *place = *state;
    char text[4096];

    skip_without("/usr/bin/pytest");
    place_write(place, "pytest.py", "import os\nos._exit(0)\n");
    place_write(place, "sitecustomize.py", "import os\nos._exit(0)\n");
    place_write(place, "conftest.py", "import os\nos._exit(0)\n");
    place_write(place, "pytest.ini", "[pytest]\naddopts=--collect-only\n");
    place_write(place, "test_main.py", "def test_bad():\n    assert False\n");

    assert_int_equal(run(place, "pytest"), 1);

    (void)place_read(place, SBX_PYTEST_REPORT, text, sizeof(text));
    assert_non_null(strstr(text, "failures=\"1\""));
}

#define PLACE_TEST(function) cmocka_unit_test_setup_teardown(function, make_place, remove_place)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(table_is_sorted_and_complete),
        cmocka_unit_test(table_defaults_lie_within_the_maxima),
        cmocka_unit_test(table_minima_lie_below_the_defaults),
        cmocka_unit_test(table_takes_each_name_once),
        cmocka_unit_test(table_wants_a_root_where_one_is_to_be_built),
        cmocka_unit_test(table_lets_a_build_replace_what_is_built_in),
        cmocka_unit_test(table_takes_so_many_and_no_more),
        cmocka_unit_test(table_preloads_only_what_starts_alike),
        cmocka_unit_test(table_digest_is_stable),
        cmocka_unit_test(table_report_is_what_the_argv_writes),
        cmocka_unit_test(table_environment_steers_no_interpreter),
        PLACE_TEST(python_imports_the_other_files),
        PLACE_TEST(python_leaves_no_cache_and_buffers_nothing),
        PLACE_TEST(shell_runs_code_and_gives_its_exit_code),
        PLACE_TEST(pytest_imports_the_solution_and_writes_the_report),
        PLACE_TEST(pytest_is_not_steered_by_files),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
