/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/supervisor/rootless.h"

#include "common/auto.h"
#include "common/err.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <sys/mount.h>

static int write_own(const char *path, const char *text, struct cr_err *err)
{
    CR_AUTO_CLOSE int fd = openat(AT_FDCWD, path, O_WRONLY | O_CLOEXEC);
    const ssize_t size = (ssize_t)strlen(text);

    if (fd < 0 || write(fd, text, (size_t)size) != size)
        return cr_err_sys(err, errno, "write '%s' to %s", text, path);
    return 0;
}

/* The kernel lets an ordinary user map one id, and only when groups cannot be changed any more
 * (user_namespaces(7)). */
static int map_ids(uid_t uid, gid_t gid, struct cr_err *err)
{
    char uid_map[32];
    char gid_map[32];
    int r = write_own("/proc/self/setgroups", "deny", err);

    (void)snprintf(uid_map, sizeof(uid_map), "0 %u 1", uid);
    (void)snprintf(gid_map, sizeof(gid_map), "0 %u 1", gid);
    if (r == 0)
        r = write_own("/proc/self/uid_map", uid_map, err);
    return r == 0 ? write_own("/proc/self/gid_map", gid_map, err) : r;
}

int sbx_rootless_enter(struct cr_err *err)
{
    const uid_t uid = geteuid();
    const gid_t gid = getegid();
    int r;

    if (uid == 0)
        return cr_err_set(err, EINVAL, "--rootless: is for an ordinary user, and this is root");
    if (unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0)
        return cr_err_sys(err, errno,
                          "--rootless: make a user namespace (sysctl user.max_user_namespaces, "
                          "kernel.unprivileged_userns_clone or AppArmor may forbid it)");
    r = map_ids(uid, gid, err);
    if (r < 0)
        return cr_err_wrap(err, "--rootless");
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        return cr_err_sys(err, errno, "--rootless: keep our mounts to ourselves");
    return 0;
}
