/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/supervisor/token.h"

#include "common/auto.h"
#include "common/err.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include <sys/mman.h>
#include <sys/stat.h>

#define TOKEN_FILE_MAX 65536 /* RPC_TOKENS_FILE_MAX, of a folder that this one may not see */

static int check_file(int fd, const char *path, struct cr_err *err)
{
    struct stat info;

    if (fstat(fd, &info) < 0)
        return cr_err_sys(err, errno, "read --token-file '%s'", path);
    if (!S_ISREG(info.st_mode))
        return cr_err_set(err, EINVAL, "--token-file '%s' is not a regular file", path);
    if (info.st_mode & (S_IRWXG | S_IRWXO))
        return cr_err_set(err, EPERM, "--token-file '%s' is open to others: chmod 600 it", path);
    if (info.st_size > TOKEN_FILE_MAX)
        return cr_err_set(err, EFBIG, "--token-file '%s' is too large to hold tokens", path);
    return 0;
}

static int fill_memfd(int memfd, int file_fd, struct cr_err *err)
{
    char content[TOKEN_FILE_MAX];
    ssize_t size = read(file_fd, content, sizeof(content));
    int r = 0;

    if (size < 0)
        r = cr_err_sys(err, errno, "read the token file");
    else if (write(memfd, content, (size_t)size) != size)
        r = cr_err_sys(err, errno, "keep the token");
    explicit_bzero(content, sizeof(content));
    return r;
}

int sbx_token_open(const char *path, struct cr_err *err)
{
    CR_AUTO_CLOSE int file_fd = openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    CR_AUTO_CLOSE int memfd = -1;
    int r;

    if (file_fd < 0)
        return cr_err_sys(err, errno, "open --token-file '%s'", path);
    r = check_file(file_fd, path, err);
    if (r < 0)
        return r;
    memfd = memfd_create("token", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (memfd < 0)
        return cr_err_sys(err, errno, "keep the token");
    r = fill_memfd(memfd, file_fd, err);
    if (r < 0)
        return r;
    if (fcntl(memfd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) < 0)
        return cr_err_sys(err, errno, "seal the token");
    return cr_take_fd(&memfd);
}
