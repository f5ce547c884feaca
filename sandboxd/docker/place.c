/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/docker/place.h"

#include "common/auto.h"
#include "common/err.h"
#include "sandboxd/backend/cgroup.h"
#include "sandboxd/docker/run.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include <linux/openat2.h>
#include <sys/pidfd.h>
#include <sys/syscall.h>

static const char *const folders[SBX_DOCKER_FOLDERS] = {
    [SBX_DOCKER_WORKSPACE] = "workspace",
    "tmp",
    "dev/shm",
};

/*
 * Their tmpfs live as long as these fds do. The root is a link of the kernel's;
 * below it no link of the image is followed.
 */
static int open_folders(pid_t pid, struct sbx_docker_run *run, struct cr_err *err)
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
        run->folder_fds[i] = (int)syscall(SYS_openat2, root, folders[i], &how, sizeof(how));
        if (run->folder_fds[i] < 0)
            return cr_err_sys(err, errno, "open /%s of a container", folders[i]);
    }
    return 0;
}

int sbx_place_open(const struct sbx_cgroup_host *cgroups, pid_t pid, struct sbx_docker_run *run,
                   struct cr_err *err)
{
    int r;

    if (pid == 0)
        return cr_err_set(err, ESRCH, "the container ended as soon as it was started");
    run->box_pidfd = pidfd_open(pid, 0);
    if (run->box_pidfd < 0)
        return cr_err_set(err, EOPNOTSUPP,
                          "the docker engine's processes are not on this host (or in another pid "
                          "namespace): its containers are read with --docker-evidence=inside only");
    /* Its control group bears its id: that is what makes the number the container's. */
    r = sbx_cgroup_open_of(cgroups, pid, run->container, &run->job.group, err);
    if (r < 0)
        return r;
    run->job.has_group = true;
    r = open_folders(pid, run, err);
    if (r < 0)
        return r;
    /* Alive behind all that: none of it was somebody else's who got the number later. */
    if (pidfd_send_signal(run->box_pidfd, 0, NULL, 0) < 0)
        return cr_err_sys(err, errno, "the container ended as soon as it was started");
    return 0;
}
