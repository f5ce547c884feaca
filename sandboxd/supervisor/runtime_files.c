/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/supervisor/runtime_files.h"

#include "common/auto.h"
#include "common/buf.h"
#include "common/err.h"
#include "sandboxd/runtimes/bundle.h"
#include "sandboxd/supervisor/registered.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>

#include <sys/mman.h>
#include <sys/stat.h>

/* What is found in the folder. The names are sorted, so that errors come in the same order. */
struct files {
    struct dirent **names;
    int count;
};

#define AUTO_FILES __attribute__((cleanup(files_done)))

static void files_done(struct files *files)
{
    for (int i = 0; i < files->count; i++)
        free(files->names[i]);
    free(files->names);
}

static int is_runtime_file(const struct dirent *entry)
{
    const size_t size = strlen(entry->d_name);
    const size_t suffix = strlen(SBX_RUNTIME_FILE_SUFFIX);

    return size >= suffix && strcmp(entry->d_name + size - suffix, SBX_RUNTIME_FILE_SUFFIX) == 0;
}

int sbx_runtime_files_check_owner(const struct stat *info, const char *name, struct cr_err *err)
{
    if (info->st_uid != 0)
        return cr_err_set(err, EPERM, "%s: belongs to user %u: chown root it", name, info->st_uid);
    if (info->st_mode & (S_IWGRP | S_IWOTH))
        return cr_err_set(err, EPERM, "%s: others than root can write it: chmod go-w it", name);
    return 0;
}

static int check_name(const char *name, struct cr_err *err)
{
    static const char legal[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "._+-";

    if (strlen(name) > SBX_RUNTIME_FILE_NAME_MAX || strspn(name, legal) != strlen(name))
        return cr_err_set(err, EINVAL,
                          "a file has a name that is too long or has other characters than "
                          "letters, digits, '.', '_', '+' and '-': rename it");
    return 0;
}

ssize_t sbx_runtime_files_read(int folder_fd, const char *name, char *text, size_t size,
                               struct cr_err *err)
{
    CR_AUTO_CLOSE int fd =
        openat(folder_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
    struct stat info;
    ssize_t n;
    int r;

    if (fd < 0 && errno == ELOOP)
        return cr_err_set(err, ELOOP, "%s: is a symbolic link: copy the file here", name);
    if (fd < 0 || fstat(fd, &info) < 0)
        return cr_err_sys(err, errno, "%s", name);
    if (!S_ISREG(info.st_mode))
        return cr_err_set(err, EINVAL, "%s: is no regular file", name);
    r = sbx_runtime_files_check_owner(&info, name, err);
    if (r < 0)
        return r;
    n = pread(fd, text, size, 0);
    if (n < 0)
        return cr_err_sys(err, errno, "%s: read it", name);
    if ((size_t)n == size)
        return cr_err_set(err, EFBIG, "%s: is larger than the maximum of %zu bytes", name,
                          size - 1);
    return n;
}

static int take_file(int folder_fd, const char *name, struct sbx_runtime_table *table,
                     struct cr_buf *bundle, struct cr_err *err)
{
    char text[SBX_RUNTIME_FILE_MAX + 1];
    ssize_t size;
    int r = check_name(name, err);

    if (r < 0)
        return r;
    size = sbx_runtime_files_read(folder_fd, name, text, sizeof(text), err);
    if (size < 0)
        return (int)size;
    r = sbx_runtime_table_add(table, name, text, (size_t)size, NULL, err);
    if (r < 0)
        return r;
    r = sbx_bundle_add(bundle, name, text, (size_t)size, NULL);
    return r < 0 ? cr_err_sys(err, -r, "%s: keep it", name) : 0;
}

static int take_folder(int folder_fd, struct sbx_runtime_table *table, struct cr_buf *bundle,
                       struct cr_err *err)
{
    AUTO_FILES struct files files = {0};
    const int count = scandirat(folder_fd, ".", &files.names, is_runtime_file, alphasort);
    int r = 0;

    if (count < 0)
        return cr_err_sys(err, errno, "read the folder");
    files.count = count;
    for (int i = 0; r == 0 && i < files.count; i++)
        r = take_file(folder_fd, files.names[i]->d_name, table, bundle, err);
    return r;
}

static int take_path(const char *path, struct sbx_runtime_table *table, struct cr_buf *bundle,
                     struct cr_err *err)
{
    CR_AUTO_CLOSE int folder_fd = openat(AT_FDCWD, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct stat info;
    int r = folder_fd < 0 || fstat(folder_fd, &info) < 0
                ? cr_err_sys(err, errno, "open it")
                : sbx_runtime_files_check_owner(&info, "the folder", err);

    if (r == 0)
        r = take_folder(folder_fd, table, bundle, err);
    return r < 0 ? cr_err_wrap(err, "--runtimes-dir '%s'", path) : 0;
}

static int seal(const struct cr_buf *bundle, struct cr_err *err)
{
    CR_AUTO_CLOSE int fd = memfd_create("runtimes", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    if (fd < 0 ||
        (bundle->size > 0 && write(fd, bundle->data, bundle->size) != (ssize_t)bundle->size) ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) < 0)
        return cr_err_sys(err, errno, "keep the runtimes");
    return cr_take_fd(&fd);
}

int sbx_runtime_files_open(const char *path, const char *state_dir, struct cr_err *err)
{
    struct sbx_runtime_table table;
    CR_AUTO_BUF struct cr_buf bundle;
    int r = 0;

    cr_buf_init(&bundle, SBX_BUNDLE_MAX);
    sbx_runtime_table_init(&table); /* a file may not have the name of what is built in */
    if (state_dir && *state_dir)
        r = sbx_registered_take(state_dir, &table, &bundle, err);
    if (r == 0 && path && *path)
        r = take_path(path, &table, &bundle, err);
    sbx_runtime_table_done(&table);
    return r < 0 ? r : seal(&bundle, err);
}
