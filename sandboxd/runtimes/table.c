/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/runtimes/table.h"

#include "common/auto.h"
#include "common/err.h"
#include "common/hash.h"
#include "sandboxd/runtimes/bundle.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sys/stat.h>

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

/* The files that are built in (shipped.S). */
#define SHIPPED(symbol)                                                                            \
    extern const char sbx_shipped_##symbol[];                                                      \
    extern const char sbx_shipped_##symbol##_end[]

SHIPPED(browser);
SHIPPED(c);
SHIPPED(cpp);
SHIPPED(go);
SHIPPED(java);
SHIPPED(node);
SHIPPED(pytest);
SHIPPED(python);
SHIPPED(python_data);
SHIPPED(rust);
SHIPPED(shell);

static const struct {
    const char *name;
    const char *file;
    const char *begin;
    const char *end;
    bool is_in_image; /* Dockerfile.sandbox sees to it */
} shipped[] = {

#define ROW(symbol, shown, in_image)                                                               \
    {                                                                                              \
        shown, shown ".runtime", sbx_shipped_##symbol, sbx_shipped_##symbol##_end, in_image        \
    }
    ROW(browser, "browser", false),
    ROW(c, "c", false),
    ROW(cpp, "c++", false),
    ROW(go, "go", false),
    ROW(java, "java", false),
    ROW(node, "node", false),
    ROW(pytest, "pytest", true),
    ROW(python, "python", true),
    ROW(python_data, "python-data", false),
    ROW(rust, "rust", false),
    ROW(shell, "shell", true),
#undef ROW
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

/* Compilers need more than what they make, and are asked for less often. */
const struct sbx_limits sbx_compile_limits = {{
    [SBX_LIMIT_WALL_TIME] = 30000,
    [SBX_LIMIT_CPU_TIME] = 60000,
    [SBX_LIMIT_MEMORY] = 768 * MIB,
    [SBX_LIMIT_PROCESSES] = 256,
    [SBX_LIMIT_CPU_MILLICORES] = 2000,
    [SBX_LIMIT_OPEN_FILES] = 1024,
    [SBX_LIMIT_FILE_SIZE] = 128 * MIB,
    [SBX_LIMIT_WORKSPACE_BYTES] = 256 * MIB,
    [SBX_LIMIT_WORKSPACE_INODES] = 16384,
    [SBX_LIMIT_STACK] = 64 * MIB,
    [SBX_LIMIT_OUTPUT] = 32 * KIB, /* of each stream; the rest is dropped, not a limit */
}};

/* Below these a box cannot even start, and a caller would see a failure of the sandbox. */
const struct sbx_limits sbx_minimum_limits = {{
    [SBX_LIMIT_WALL_TIME] = 1,
    [SBX_LIMIT_CPU_TIME] = 1,
    [SBX_LIMIT_MEMORY] = 4 * MIB,
    [SBX_LIMIT_PROCESSES] = 1,
    [SBX_LIMIT_CPU_MILLICORES] = 10, /* the kernel's quota: 1 ms of 100 */
    [SBX_LIMIT_OPEN_FILES] = 16,
    [SBX_LIMIT_FILE_SIZE] = 4 * KIB,
    [SBX_LIMIT_WORKSPACE_BYTES] = 64 * KIB,
    [SBX_LIMIT_WORKSPACE_INODES] = 64,
    [SBX_LIMIT_STACK] = 128 * KIB,
    [SBX_LIMIT_OUTPUT] = 1,
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

/* ---- a table ---- */

static int find(const struct sbx_runtime_table *table, const char *name)
{
    for (size_t i = 0; i < table->count; i++) {
        if (strcmp(table->list[i].name, name) == 0)
            return (int)i;
    }
    return -ENOENT;
}

static bool is_same_list(const char *const *a, const char *const *b)
{
    size_t i = 0;

    while (a[i] && b[i] && strcmp(a[i], b[i]) == 0)
        i++;
    return !a[i] && !b[i];
}

/* The runtime of that name, when interpreters are made for it and wait. */
static const struct sbx_runtime *find_model(const struct sbx_runtime_table *table, const char *name)
{
    const int index = find(table, name);
    const struct sbx_runtime *model = index < 0 ? NULL : &table->list[index];

    return model && model->preload && strcmp(model->preload, model->name) == 0 ? model : NULL;
}

static bool is_same_start(const struct sbx_runtime *a, const struct sbx_runtime *b)
{
    const char *entry_a = a->entry_file ? a->entry_file : "";
    const char *entry_b = b->entry_file ? b->entry_file : "";

    return strcmp(entry_a, entry_b) == 0 && is_same_list(a->argv, b->argv) &&
           is_same_list(a->environment, b->environment);
}

/* An interpreter that waits has its argv, its environment and its entry file behind it. */
static int check_preload(const struct sbx_runtime_table *table, const struct sbx_runtime *runtime,
                         const char *file, struct cr_err *err)
{
    const struct sbx_runtime *model;

    if (!runtime->preload)
        return 0;
    model = find_model(table, runtime->preload);
    if (!model)
        return cr_err_set(err, EINVAL,
                          "%s:%u: preload: '%.64s' has no interpreters that wait; none, python and "
                          "pytest are right",
                          file, runtime->preload_line, runtime->preload);
    if (!is_same_start(model, runtime))
        return cr_err_set(err, EINVAL,
                          "%s:%u: preload: the interpreters of '%s' were started with its own "
                          "argv, env and entry_file: give the same ones, or preload = none",
                          file, runtime->preload_line, model->name);
    return 0;
}

/* The interpreters that wait are those of the host, under the names of these. */
static bool can_be_replaced(const struct sbx_runtime *shipped_one)
{
    return shipped_one->is_shipped && !shipped_one->is_in_image;
}

static int check_new(const struct sbx_runtime_table *table, const struct sbx_runtime *runtime,
                     const char *file, struct cr_err *err)
{
    const int other = find(table, runtime->name);

    if (!runtime->root[0] && runtime->rootfs == SBX_ROOTFS_BUILD)
        return cr_err_set(err, EINVAL,
                          "%s:%u: name: '%s' has a root file system of its own that was not built: "
                          "take the file out of this folder and run 'sandboxd runtime build FILE', "
                          "which registers both",
                          file, runtime->name_line, runtime->name);
    if (other >= 0 && runtime->root[0] && can_be_replaced(&table->list[other]))
        return 0;
    if (other >= 0)
        return cr_err_set(err, EINVAL,
                          "%s:%u: name: there is a runtime '%s' already, built in or of another "
                          "file; choose another name, or give this one a version",
                          file, runtime->name_line, runtime->name);
    if (table->count == SBX_RUNTIMES_MAX)
        return cr_err_set(err, EINVAL,
                          "%s:%u: is one runtime more than the maximum of %u, those that are built "
                          "in counted; remove a file",
                          file, runtime->name_line, SBX_RUNTIMES_MAX);
    return 0;
}

/* Takes the runtime; one of the same name goes. */
static void insert(struct sbx_runtime_table *table, const struct sbx_runtime *runtime)
{
    const int other = find(table, runtime->name);
    size_t at;

    if (other >= 0) {
        sbx_runtime_done(&table->list[other]);
        table->list[other] = *runtime;
        return;
    }
    at = table->count++;
    for (; at > 0 && strcmp(table->list[at - 1].name, runtime->name) > 0; at--)
        table->list[at] = table->list[at - 1];
    table->list[at] = *runtime;
}

bool sbx_root_digest_is_valid(const char *digest)
{
    return strlen(digest) == SBX_ROOT_DIGEST_SIZE - 1 &&
           strspn(digest, "0123456789abcdef") == SBX_ROOT_DIGEST_SIZE - 1;
}

int sbx_runtime_table_add(struct sbx_runtime_table *table, const char *file, const char *text,
                          size_t size, const char *root, struct cr_err *err)
{
    struct sbx_runtime runtime;
    int r;

    if (root && *root && !sbx_root_digest_is_valid(root))
        return cr_err_set(err, EINVAL, "%s: its root file system has no digest", file);
    r = sbx_runtime_file_parse(file, text, size, &runtime, err);
    if (r < 0)
        return r;
    if (root && *root) {
        memcpy(runtime.root, root, sizeof(runtime.root));
        runtime.preload = NULL; /* what waits was started from the host's files */
    }
    r = check_new(table, &runtime, file, err);
    if (r == 0)
        r = check_preload(table, &runtime, file, err);
    if (r < 0)
        sbx_runtime_done(&runtime);
    else
        insert(table, &runtime);
    return r;
}

void sbx_runtime_table_init(struct sbx_runtime_table *table)
{
    *table = (struct sbx_runtime_table){0};
    for (size_t i = 0; i < CR_ARRAY_SIZE(shipped); i++) {
        const size_t size = (size_t)((uintptr_t)shipped[i].end - (uintptr_t)shipped[i].begin);

        struct sbx_runtime runtime;

        if (sbx_runtime_file_parse(shipped[i].file, shipped[i].begin, size, &runtime, NULL) < 0)
            abort();
        runtime.is_shipped = true;
        runtime.is_in_image = shipped[i].is_in_image;
        insert(table, &runtime);
    }
}

int sbx_runtime_shipped(const char *name, const char **ret_text, size_t *ret_size)
{
    for (size_t i = 0; i < CR_ARRAY_SIZE(shipped); i++) {
        if (strcmp(shipped[i].name, name) != 0)
            continue;
        *ret_text = shipped[i].begin;
        *ret_size = (size_t)((uintptr_t)shipped[i].end - (uintptr_t)shipped[i].begin);
        return 0;
    }
    return -ENOENT;
}

void sbx_runtime_table_done(struct sbx_runtime_table *table)
{
    while (table->count > 0)
        sbx_runtime_done(&table->list[--table->count]);
}

/* ---- the table of this process ---- */

/* Made on first use, changed by sbx_runtimes_load() before the first thread, and then by nobody. */
static struct sbx_runtime_table own;
static pthread_once_t own_once = PTHREAD_ONCE_INIT;

static void init_own(void)
{
    sbx_runtime_table_init(&own);
}

const struct sbx_runtime *sbx_runtimes(size_t *ret_count)
{
    (void)pthread_once(&own_once, init_own); /* fails for a bad argument only */
    *ret_count = own.count;
    return own.list;
}

int sbx_runtimes_load(int fd, struct cr_err *err)
{
    CR_AUTO_FREE char *data = NULL;
    struct stat info;
    ssize_t size;

    (void)pthread_once(&own_once, init_own);
    if (fstat(fd, &info) < 0)
        return cr_err_sys(err, errno, "read the runtimes");
    if (info.st_size < 0 || (uint64_t)info.st_size > SBX_BUNDLE_MAX)
        return cr_err_set(err, EPROTO, "the runtimes are too large");
    data = malloc((size_t)info.st_size + 1);
    if (!data)
        return cr_err_set(err, ENOMEM, "out of memory for the runtimes");
    size = pread(fd, data, (size_t)info.st_size, 0); /* whoever reads next starts at 0, too */
    if (size != info.st_size)
        return cr_err_set(err, EPROTO, "the runtimes are cut short");
    return sbx_bundle_read(data, (size_t)size, &own, err);
}

int sbx_runtime_find(const char *name)
{
    size_t count;

    (void)sbx_runtimes(&count);
    return find(&own, name);
}

static uint64_t hash_list(uint64_t hash, const char *const *list)
{
    for (; *list; list++)
        hash = cr_hash_text(hash, *list);
    return cr_hash_text(hash, "");
}

uint64_t sbx_runtimes_digest(void)
{
    uint64_t hash = CR_HASH_START;
    size_t count;
    const struct sbx_runtime *list = sbx_runtimes(&count);

    hash = hash_list(hash, sbx_environment);
    for (size_t i = 0; i < count; i++) {
        hash = cr_hash_text(hash, list[i].name);
        hash = cr_hash_text(hash, list[i].entry_file ? list[i].entry_file : "");
        hash = cr_hash_text(hash, list[i].preload ? list[i].preload : "");
        hash = cr_hash_text(hash, list[i].root);
        hash = hash_list(hash, list[i].compile);
        hash = hash_list(hash, list[i].compile_output);
        hash = hash_list(hash, list[i].argv);
        hash = hash_list(hash, list[i].environment);
    }
    return hash;
}
