/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/backend/root_lock.h"

#include "common/auto.h"
#include "common/err.h"

#include <errno.h>
#include <fcntl.h>

#include <sys/file.h>

int sbx_root_lock(const char *path, struct cr_err *err)
{
    CR_AUTO_CLOSE int fd = openat(AT_FDCWD, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);

    if (fd < 0)
        return cr_err_sys(err, errno, "open its folder");
    if (flock(fd, LOCK_SH | LOCK_NB) < 0)
        return cr_err_set(err, EBUSY, "it is being removed or replaced: start again");
    return cr_take_fd(&fd);
}
