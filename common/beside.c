/* SPDX-License-Identifier: Apache-2.0 */
#include "common/beside.h"

#include "common/err.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int cr_beside_find(const char *name, char *ret_path, struct cr_err *err)
{
    char *path = ret_path;
    ssize_t size = readlink("/proc/self/exe", path, PATH_MAX - 1);
    char *slash;
    int n;

    if (size < 0)
        return cr_err_sys(err, errno, "read /proc/self/exe");
    path[size] = '\0';
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
