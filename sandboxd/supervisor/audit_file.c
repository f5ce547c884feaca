/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/supervisor/audit_file.h"

#include "common/auto.h"
#include "common/err.h"

#include <errno.h>
#include <fcntl.h>

#include <sys/stat.h>

static int check_file(int fd, const char *path, struct cr_err *err)
{
    struct stat info;

    if (fstat(fd, &info) < 0)
        return cr_err_sys(err, errno, "read --audit-log '%s'", path);
    if (!S_ISREG(info.st_mode))
        return cr_err_set(err, EINVAL, "--audit-log '%s' is not a regular file", path);
    if (info.st_uid != geteuid())
        return cr_err_set(err, EPERM, "--audit-log '%s' belongs to another user: chown it", path);
    if (info.st_mode & (S_IRWXG | S_IRWXO))
        return cr_err_set(err, EPERM, "--audit-log '%s' is open to others: chmod 600 it", path);
    return 0;
}

int sbx_audit_file_open(const char *path, struct cr_err *err)
{
    /* NONBLOCK: a pipe in its place must not hold up the start. */
    CR_AUTO_CLOSE int fd =
        openat(AT_FDCWD, path,
               O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY,
               S_IRUSR | S_IWUSR);
    int r;

    if (fd < 0)
        return cr_err_sys(err, errno, "open --audit-log '%s'", path);
    r = check_file(fd, path, err);
    return r < 0 ? r : cr_take_fd(&fd);
}
