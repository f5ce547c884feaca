/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/docker/place.h"

#include "common/auto.h"
#include "common/buf.h"
#include "common/err.h"
#include "sandboxd/backend/cgroup.h"
#include "sandboxd/docker/box.h"
#include "sandboxd/wire/msg.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <linux/openat2.h>
#include <sys/pidfd.h>
#include <sys/syscall.h>

#define LIMITS_TEXT_MAX (64U << 10)

static const char *const folders[SBX_DOCKER_FOLDERS] = {
    [SBX_DOCKER_WORKSPACE] = "workspace",
    "tmp",
    "dev/shm",
};

/*
 * Their tmpfs live as long as these fds do. The root is a link of the kernel's;
 * below it no link of the image is followed.
 */
static int open_folders(pid_t pid, struct sbx_docker_box *box, struct cr_err *err)
{
    static const struct open_how how = {
        .flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC,
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
    };
    CR_AUTO_CLOSE int root = -1;
    char path[64];

    (void)snprintf(path, sizeof(path), "/proc/%d/root", (int)pid);
    root = openat(AT_FDCWD, path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (root < 0)
        return cr_err_sys(err, errno, "open the root of a container");
    for (int i = 0; i < SBX_DOCKER_FOLDERS; i++) {
        box->folder_fds[i] = (int)syscall(SYS_openat2, root, folders[i], &how, sizeof(how));
        if (box->folder_fds[i] < 0)
            return cr_err_sys(err, errno, "open /%s of a container", folders[i]);
    }
    return 0;
}

int sbx_place_open(const struct sbx_cgroup_host *cgroups, pid_t pid, struct sbx_docker_box *box,
                   struct cr_err *err)
{
    int r;

    if (pid == 0)
        return cr_err_set(err, ESRCH, "the container ended as soon as it was started");
    box->pid = pid;
    box->pidfd = pidfd_open(pid, 0);
    if (box->pidfd < 0)
        return cr_err_set(err, EOPNOTSUPP,
                          "the docker engine's processes are not on this host (or in another pid "
                          "namespace): its containers are read with --docker-evidence=inside only");
    /* Its control group bears its id: that is what makes the number the container's. */
    r = sbx_cgroup_open_of(cgroups, pid, box->container, &box->group, err);
    if (r < 0)
        return r;
    box->has_group = true;
    r = open_folders(pid, box, err);
    if (r < 0)
        return r;
    /* Alive behind all that: none of it was somebody else's who got the number later. */
    if (pidfd_send_signal(box->pidfd, 0, NULL, 0) < 0)
        return cr_err_sys(err, errno, "the container ended as soon as it was started");
    return 0;
}

/* Two numbers behind the name, soft and hard; "unlimited" is none. */
static bool has_limit(const char *text, const char *name, uint64_t value)
{
    const char *at = strstr(text, name);
    char *end = NULL;

    if (!at)
        return false;
    at += strlen(name);
    for (int i = 0; i < 2; i++, at = end) {
        if (strtoull(at, &end, 10) != value || end == at)
            return false;
    }
    return true;
}

int sbx_place_check_limits(const struct sbx_docker_box *box, const struct sbx_limits *limits,
                           struct cr_err *err)
{
    static const struct {
        const char *name;
        enum sbx_limit limit;
    } rows[] = {
        {"Max stack size", SBX_LIMIT_STACK},
        {"Max file size", SBX_LIMIT_FILE_SIZE},
        {"Max open files", SBX_LIMIT_OPEN_FILES},
    };
    CR_AUTO_BUF struct cr_buf text = {0};
    char path[64];
    int r;

    cr_buf_init(&text, LIMITS_TEXT_MAX);
    (void)snprintf(path, sizeof(path), "/proc/%d/limits", (int)box->pid);
    r = sbx_cgroup_read_proc(path, &text, err);
    for (size_t i = 0; r == 0 && i < CR_ARRAY_SIZE(rows); i++) {
        uint64_t value = limits->value[rows[i].limit];

        if (!has_limit(cr_buf_str(&text), rows[i].name, value))
            r = cr_err_set(err, EIO, "sandbox-init did not take over '%s' of %" PRIu64,
                           sbx_limit_name(rows[i].limit), value);
    }
    return r;
}
