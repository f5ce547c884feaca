/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/runtimes/table.h"

#include "common/auto.h"

#include <errno.h>
#include <string.h>

#define KIB UINT64_C(1024)
#define MIB (1024 * KIB)
#define GIB (1024 * MIB)

/*
 * The root filesystem is the host's /usr without /usr/local, and /bin, /lib
 * and so on are links into it. HOME is the one place that the program may
 * write and execute in. No PYTHON* name is set: what the interpreter is to do
 * stands in its argv, where a child of the program does not inherit it.
 */
const char *const sbx_environment[] = {
    "PATH=/usr/bin:/bin:/usr/sbin:/sbin",
    "HOME=/workspace",
    "USER=sandbox",
    "LOGNAME=sandbox",
    "SHELL=/bin/sh",
    "TMPDIR=/tmp",
    "LANG=C.UTF-8",
    "TZ=UTC",
    NULL,
};

static const char *const no_environment[] = {NULL};

/*
 * -s -E   no user site, no PYTHON* variable. Not -I: in 3.11 that implies -P, which takes the
 *         folder of main.py out of sys.path, and `import helper` of another input file fails.
 * -B      no __pycache__ beside the user's files.
 * -u      output leaves when it is printed: it streams, and a program that is killed at a limit has
 *         said what it said.
 */
static const char *const python_argv[] = {
    "/usr/bin/python3", "-s", "-E", "-B", "-u", "main.py", NULL,
};

/*
 * A test run that files of the program cannot steer: -I keeps the working folder off sys.path until
 * pytest itself puts the folder of a test file there (import mode "prepend", so that the test can
 * import the solution beside it), so a pytest.py or sitecustomize.py in it is never imported;
 * configuration, conftest.py, plugins and the cache are off; an unexpected pass is a failure. -q
 * leaves out what no reader needs; the numbers are taken from the report.
 */
static const char *const pytest_argv[] = {
    "/usr/bin/python3",
    "-I",
    "-B",
    "-m",
    "pytest",
    "-q",
    "-c",
    "/dev/null",
    "--rootdir=/workspace",
    "--noconftest",
    "-p",
    "no:cacheprovider",
    "--strict-markers",
    "-o",
    "xfail_strict=true",
    "--junitxml=/workspace/.crisol-report.xml", /* SBX_PYTEST_REPORT */
    NULL,
};

static const char *const pytest_environment[] = {
    "PYTEST_DISABLE_PLUGIN_AUTOLOAD=1", /* plugins are found by entry point otherwise */
    NULL,
};

static const char *const shell_argv[] = {"/bin/sh", "main.sh", NULL};

/* Sorted by name. */
static const struct sbx_runtime runtimes[] = {
    {
        .name = "pytest",
        .description = "Runs the pytest tests among the files; the result has a test report",
        .entry_file = "test_main.py",
        .argv = pytest_argv,
        .environment = pytest_environment,
        .version_path = "/usr/bin/pytest",
        .report_file = SBX_PYTEST_REPORT,
        .needs_files = true,
        .rootfs = SBX_ROOTFS_HOST_USR,
    },
    {
        .name = "python",
        .description = "Python 3 with the standard library",
        .entry_file = "main.py",
        .argv = python_argv,
        .environment = no_environment,
        .version_path = "/usr/bin/python3",
        .needs_files = true,
        .rootfs = SBX_ROOTFS_HOST_USR,
    },
    {
        .name = "shell",
        .description = "POSIX shell script (/bin/sh) with the host's command line tools",
        .entry_file = "main.sh",
        .argv = shell_argv,
        .environment = no_environment,
        .version_path = "/bin/sh",
        .needs_files = true,
        .rootfs = SBX_ROOTFS_HOST_USR,
    },
};

const struct sbx_limits sbx_default_limits = {{
    [SBX_LIMIT_WALL_TIME] = 10000,
    [SBX_LIMIT_CPU_TIME] = 10000,
    [SBX_LIMIT_MEMORY] = 128 * MIB,
    [SBX_LIMIT_PROCESSES] = 64,
    [SBX_LIMIT_CPU_MILLICORES] = 500,
    [SBX_LIMIT_OPEN_FILES] = 1024,
    [SBX_LIMIT_FILE_SIZE] = 64 * MIB,
    [SBX_LIMIT_WORKSPACE_BYTES] = 64 * MIB,
    [SBX_LIMIT_WORKSPACE_INODES] = 4096,
    [SBX_LIMIT_STACK] = 8 * MIB,
    [SBX_LIMIT_OUTPUT] = 1 * MIB,
}};

const struct sbx_limits sbx_maximum_limits = {{
    [SBX_LIMIT_WALL_TIME] = 300000,
    [SBX_LIMIT_CPU_TIME] = 1200000, /* four cores for the whole wall time */
    [SBX_LIMIT_MEMORY] = 2 * GIB,
    [SBX_LIMIT_PROCESSES] = 512,
    [SBX_LIMIT_CPU_MILLICORES] = 4000,
    [SBX_LIMIT_OPEN_FILES] = 4096,
    [SBX_LIMIT_FILE_SIZE] = 1 * GIB,
    [SBX_LIMIT_WORKSPACE_BYTES] = 1 * GIB,
    [SBX_LIMIT_WORKSPACE_INODES] = 65536,
    [SBX_LIMIT_STACK] = 256 * MIB,
    [SBX_LIMIT_OUTPUT] = 64 * MIB,
}};

const struct sbx_runtime *sbx_runtimes(size_t *ret_count)
{
    *ret_count = CR_ARRAY_SIZE(runtimes);
    return runtimes;
}

int sbx_runtime_find(const char *name)
{
    for (size_t i = 0; i < CR_ARRAY_SIZE(runtimes); i++) {
        if (strcmp(runtimes[i].name, name) == 0)
            return (int)i;
    }
    return -ENOENT;
}

/* The terminating NUL is hashed too, so that {"a", "b"} is not {"ab"}. */
static uint64_t hash_text(uint64_t hash, const char *text)
{
    for (;; text++) {
        hash = (hash ^ (uint8_t)*text) * UINT64_C(0x100000001b3);
        if (!*text)
            return hash;
    }
}

static uint64_t hash_list(uint64_t hash, const char *const *list)
{
    for (; *list; list++)
        hash = hash_text(hash, *list);
    return hash_text(hash, "");
}

uint64_t sbx_runtimes_digest(void)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);

    hash = hash_list(hash, sbx_environment);
    for (size_t i = 0; i < CR_ARRAY_SIZE(runtimes); i++) {
        hash = hash_text(hash, runtimes[i].name);
        hash = hash_text(hash, runtimes[i].entry_file);
        hash = hash_list(hash, runtimes[i].argv);
        hash = hash_list(hash, runtimes[i].environment);
    }
    return hash;
}
