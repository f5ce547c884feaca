/* SPDX-License-Identifier: Apache-2.0 */
#include "common/beside.h"

#include "common/err.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sys/auxv.h>

/*
 * Where there is no /proc, as in a root file system that is just being made, the
 * kernel still tells by what name it was executed (AT_EXECFN, getauxval(3)).
 */
static int find_self(char *ret_path, struct cr_err *err)
{
    ssize_t size = readlink("/proc/self/exe", ret_path, PATH_MAX - 1);
    /* NOLINTNEXTLINE(performance-no-int-to-ptr): getauxval(3) gives each value as a number */
    const char *name = (const char *)getauxval(AT_EXECFN);

    if (size >= 0) {
        ret_path[size] = '\0';
        return 0;
    }
    if (errno != ENOENT || !name)
        return cr_err_sys(err, errno, "read /proc/self/exe");
    if (!realpath(name, ret_path))
        return cr_err_sys(err, errno, "find '%s', this program", name);
    return 0;
}

int cr_beside_find(const char *name, char *ret_path, struct cr_err *err)
{
    char *path = ret_path;
    int r = find_self(path, err);
    char *slash;
    int n;

    if (r < 0)
        return r;
    slash = strrchr(path, '/');
    if (!slash)
        return cr_err_set(err, ENOENT, "find '%s' beside this program", name);
    n = snprintf(slash + 1, (size_t)(PATH_MAX - (slash + 1 - path)), "%s", name);
    if (n < 0 || n >= PATH_MAX - (slash + 1 - path))
        return cr_err_set(err, ENAMETOOLONG, "find '%s' beside this program", name);
    if (access(path, X_OK) < 0)
        return cr_err_sys(err, errno, "find '%s'", path);
    return 0;
}
