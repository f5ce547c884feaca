/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/supervisor/registered.h"

#include "common/auto.h"
#include "common/buf.h"
#include "common/err.h"
#include "sandboxd/runtimes/bundle.h"
#include "sandboxd/supervisor/runtime_files.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sys/stat.h>

static int is_registered(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

static int open_folder(int parent_fd, const char *name, struct cr_err *err)
{
    CR_AUTO_CLOSE int fd = openat(parent_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    struct stat info;
    int r;

    if (fd < 0 || fstat(fd, &info) < 0)
        return cr_err_sys(err, errno, "%s", name);
    r = sbx_runtime_files_check_owner(&info, name, err);
    return r < 0 ? r : cr_take_fd(&fd);
}

static int read_digest(int folder_fd, char ret_digest[SBX_ROOT_DIGEST_SIZE], struct cr_err *err)
{
    char text[SBX_ROOT_DIGEST_SIZE + 2];
    ssize_t size =
        sbx_runtime_files_read(folder_fd, SBX_REGISTERED_DIGEST, text, sizeof(text), err);

    if (size < 0)
        return (int)size;
    if ((size_t)size != SBX_ROOT_DIGEST_SIZE || text[size - 1] != '\n')
        return cr_err_set(err, EINVAL, "its digest is none: remove it and build it again");
    memcpy(ret_digest, text, SBX_ROOT_DIGEST_SIZE);
    ret_digest[SBX_ROOT_DIGEST_SIZE - 1] = '\0';
    return 0;
}

static int take_one(int runtimes_fd, const char *name, struct sbx_runtime_table *table,
                    struct cr_buf *bundle, struct cr_err *err)
{
    CR_AUTO_CLOSE int folder_fd = open_folder(runtimes_fd, name, err);
    char text[SBX_RUNTIME_FILE_MAX + 1];
    char digest[SBX_ROOT_DIGEST_SIZE];
    ssize_t size;
    int r;

    if (folder_fd < 0)
        return folder_fd;
    size = sbx_runtime_files_read(folder_fd, SBX_REGISTERED_FILE, text, sizeof(text), err);
    if (size < 0)
        return (int)size;
    r = read_digest(folder_fd, digest, err);
    if (r == 0)
        r = sbx_runtime_table_add(table, name, text, (size_t)size, digest, err);
    if (r < 0)
        return r;
    r = sbx_bundle_add(bundle, name, text, (size_t)size, digest);
    return r < 0 ? cr_err_sys(err, -r, "keep it") : 0;
}

static int take_all(int runtimes_fd, struct sbx_runtime_table *table, struct cr_buf *bundle,
                    struct cr_err *err)
{
    struct dirent **names = NULL;
    const int count = scandirat(runtimes_fd, ".", &names, is_registered, alphasort);
    int r = count < 0 ? cr_err_sys(err, errno, "read it") : 0;

    for (int i = 0; i < count; i++) {
        if (r == 0 && take_one(runtimes_fd, names[i]->d_name, table, bundle, err) < 0)
            r = cr_err_wrap(err, "runtime '%s'", names[i]->d_name);
        free(names[i]);
    }
    free((void *)names);
    return r;
}

int sbx_registered_take(const char *state_dir, struct sbx_runtime_table *table,
                        struct cr_buf *bundle, struct cr_err *err)
{
    CR_AUTO_CLOSE int fd = -1;
    char path[PATH_MAX];
    int r;

    (void)snprintf(path, sizeof(path), "%s/" SBX_REGISTERED_FOLDER, state_dir);
    if (faccessat(AT_FDCWD, path, F_OK, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT)
        return 0;
    fd = open_folder(AT_FDCWD, path, err);
    r = fd < 0 ? fd : take_all(fd, table, bundle, err);
    return r < 0 ? cr_err_wrap(err, "--state-dir") : 0;
}
