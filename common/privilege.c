/* SPDX-License-Identifier: Apache-2.0 */
#include "common/privilege.h"

#include "common/err.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#define CAPABILITIES_MAX 64

static int get_capabilities(struct __user_cap_data_struct data[2])
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};

    return syscall(SYS_capget, &header, data) < 0 ? -errno : 0;
}

static bool has_capabilities(const struct __user_cap_data_struct data[2])
{
    return (data[0].permitted | data[1].permitted) != 0;
}

/* While CAP_SETPCAP is still there: after setresuid() each drop would be EPERM and the set full. */
static int drop_bounding_set(void)
{
    for (unsigned long i = 0; i < CAPABILITIES_MAX; i++) {
        if (prctl(PR_CAPBSET_DROP, i, 0, 0, 0) < 0)
            return errno == EINVAL && i > 0 ? 0 : -errno; /* past the kernel's last one */
    }
    return 0;
}

static int drop_capabilities(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2] = {{0}, {0}};

    /* A kernel that has no such set (gVisor's) has nothing to clear. */
    if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0 && errno != EINVAL)
        return -errno;
    return syscall(SYS_capset, &header, data) < 0 ? -errno : 0;
}

/* Reads back what the calls above promised. */
static bool is_dropped(uid_t uid, gid_t gid)
{
    struct __user_cap_data_struct data[2];
    uid_t uids[3];
    gid_t gids[3];

    if (getresuid(&uids[0], &uids[1], &uids[2]) < 0 ||
        getresgid(&gids[0], &gids[1], &gids[2]) < 0 || get_capabilities(data) < 0)
        return false;
    for (int i = 0; i < 3; i++) {
        if (uids[i] != uid || gids[i] != gid)
            return false;
    }
    return !has_capabilities(data) && (uid == 0 || setresuid((uid_t)-1, 0, (uid_t)-1) < 0);
}

/*
 * In the user namespace of an ordinary user nobody may change groups
 * (user_namespaces(7)): those of whoever started us stay.
 */
static bool are_groups_fixed(void)
{
    char text[8] = "";
    int fd = open("/proc/self/setgroups", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

    if (fd >= 0)
        (void)close(fd);
    return n > 0 && strncmp(text, "deny", 4) == 0;
}

static int drop_ids(uid_t uid, gid_t gid, struct cr_err *err)
{
    int r = drop_bounding_set();

    if (r < 0)
        return cr_err_sys(err, -r, "drop the bounding set");
    if (setgroups(0, NULL) < 0 && !(errno == EPERM && are_groups_fixed()))
        return cr_err_sys(err, errno, "drop supplementary groups");
    if (setresgid(gid, gid, gid) < 0)
        return cr_err_sys(err, errno, "become group %u", gid);
    if (setresuid(uid, uid, uid) < 0)
        return cr_err_sys(err, errno, "become user %u", uid);
    return 0;
}

int cr_privilege_drop(uid_t uid, gid_t gid, struct cr_err *err)
{
    struct __user_cap_data_struct data[2];
    int r = get_capabilities(data);

    if (r == 0 && has_capabilities(data)) {
        r = drop_ids(uid, gid, err);
        if (r < 0)
            return r;
    }
    if (r == 0)
        r = drop_capabilities();
    if (r < 0)
        return cr_err_sys(err, -r, "drop capabilities");
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return cr_err_sys(err, errno, "set no_new_privs");
    if (!is_dropped(uid, gid))
        return cr_err_set(err, EPERM, "cannot become user %u, group %u", uid, gid);
    return 0;
}
