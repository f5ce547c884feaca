/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "sandboxd/backend/box_steps.h"
#include "sandboxd/template/preload.h"
#include "sandboxd/template/python.h"
#include "sandboxd/wire/fds.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sys/mount.h>
#include <sys/wait.h>

#define BOX_FDS_MAX (SBX_TEMPLATE_BOX_FDS_MIN + SBX_TEMPLATE_GROUPS_MAX)

static void close_fds(int *fds, size_t count)
{
    for (size_t i = 0; i < count; i++)
        cr_close_fd(&fds[i]);
}

/* In a child: a folder of its own for files, which goes with it. */
static int make_scratch(void)
{
    if (unshare(CLONE_NEWNS) < 0 ||
        mount("scratch", "/workspace", "tmpfs", MS_NOSUID | MS_NODEV, "mode=0755") < 0 ||
        mount("scratch", "/tmp", "tmpfs", MS_NOSUID | MS_NODEV, "mode=1777") < 0 ||
        chdir("/workspace") < 0)
        return -errno;
    return 0;
}

static void report_at_exit(int status, void *user)
{
    (void)status;
    sbx_preload_report_ranges(user);
}

/* What pytest runs in a trial comes from boot.py. */
static int make_program(struct sbx_preload *preload)
{
    static const char text[] = "import os\nimport sys\nsys.stdout.write(os.sep)\n";
    CR_AUTO_CLOSE int fd = -1;

    if (preload->kind != SBX_TEMPLATE_PYTHON)
        return 0;
    fd = openat(AT_FDCWD, SBX_PRELOAD_ENTRY, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, text, strlen(text)) < 0)
        return -errno;
    return on_exit(report_at_exit, preload) != 0 ? -ENOMEM : 0;
}

/* The trial: as a box, but with the template's own rights, and nothing comes from outside. */
static int become_trial(struct sbx_preload *preload, int report_fd)
{
    CR_AUTO_CLOSE int null_fd = -1;
    int r = sbx_box_die_with_parent();

    if (r == 0)
        r = make_scratch();
    if (r == 0)
        r = make_program(preload);
    preload->is_child = true;
    preload->is_trial = true;
    preload->trial_fd = fcntl(report_fd, F_DUPFD_CLOEXEC, SBX_TEMPLATE_FD_FIRST);
    null_fd = openat(AT_FDCWD, "/dev/null", O_RDWR | O_CLOEXEC);
    if (r == 0 && (null_fd < 0 || preload->trial_fd < 0))
        r = -errno;
    if (r == 0)
        r = sbx_preload_replace_fds(preload, (int[]){null_fd, null_fd, null_fd}, true, true);
    return r;
}

/*
 * Runs what a request runs, with files of ours, in a child. Returns 0 in the
 * template; in the trial itself 1.
 */
static int try_run(struct sbx_preload *preload)
{
    CR_AUTO_CLOSE int read_fd = -1;
    CR_AUTO_CLOSE int write_fd = -1;
    int ends[2];
    pid_t pid;
    int r;

    if (pipe2(ends, O_CLOEXEC) < 0)
        return -errno;
    read_fd = ends[0];
    write_fd = ends[1];
    PyOS_BeforeFork();
    pid = fork();
    if (pid == 0) {
        PyOS_AfterFork_Child();
        if (become_trial(preload, write_fd) < 0)
            _exit(1); /* the template sees the end of the pipe */
        return 1;
    }
    PyOS_AfterFork_Parent();
    cr_close_fd(&write_fd);
    if (pid < 0)
        return -errno;
    r = sbx_preload_read_ranges(preload, read_fd);
    if (r == 0)
        (void)waitpid(pid, NULL, 0);
    return r;
}

/* The folders that it wrote to until now: boxes have their own. */
static int drop_scratch(void)
{
    if (chdir("/") < 0 || umount2("/workspace", MNT_DETACH) < 0 || umount2("/tmp", MNT_DETACH) < 0)
        return -errno;
    return 0;
}

static int answer(const struct sbx_template_msg *msg, pid_t pid, int pidfd)
{
    struct sbx_template_msg reply = {
        .op = SBX_TEMPLATE_BOXED,
        .id = msg->id,
        .pid = pid > 0 ? pid : 0,
        .error = pid > 0 ? 0 : -pid,
    };

    return sbx_fds_send(SBX_TEMPLATE_FD_CONTROL, &reply, sizeof(reply), &pidfd, pidfd < 0 ? 0 : 1);
}

/* Returns true in the program. */
static bool make_box(struct sbx_preload *preload, const struct sbx_template_msg *msg, int *fds,
                     size_t count)
{
    CR_AUTO_CLOSE int pidfd = -1;
    int channel_fd = -1;
    pid_t pid = -EPROTO;

    if (msg->op == SBX_TEMPLATE_BOX && msg->place < preload->places &&
        count >= SBX_TEMPLATE_BOX_FDS_MIN) {
        PyOS_BeforeFork();
        pid = sbx_preload_spawn(msg, fds, count, &pidfd, &channel_fd);
        if (pid == 0) {
            PyOS_AfterFork_Child();
            preload->is_child = true;
            sbx_preload_become_program(preload, channel_fd);
            return true;
        }
        PyOS_AfterFork_Parent();
    }
    close_fds(fds, count);
    if (answer(msg, pid, pidfd) < 0)
        _exit(0); /* the backend is gone */
    return false;
}

/* True when a folder holds nothing; whatever the warm-up left there, a program would find. */
static bool is_empty(const char *path)
{
    DIR *folder = opendir(path);
    size_t count = 0;

    while (folder && readdir(folder)) // NOLINT(concurrency-mt-unsafe): a stream of one thread
        count++;
    if (folder)
        (void)closedir(folder);
    return folder && count == 2; /* . and .. */
}

/*
 * In a container of its own. What a trial finds out elsewhere is not needed:
 * nobody shares pages with it that it would have to copy.
 */
static void become_the_program(struct sbx_preload *preload)
{
    static const char *const folders[] = {"/workspace", "/tmp", "/dev/shm"};
    const struct sbx_template_msg ready = {.op = SBX_TEMPLATE_READY, .kind = preload->kind};

    if (preload->kind == SBX_TEMPLATE_PYTHON && unlinkat(AT_FDCWD, SBX_PRELOAD_ENTRY, 0) < 0)
        sbx_preload_fail("remove the program that was never run", errno);
    for (size_t i = 0; i < CR_ARRAY_SIZE(folders); i++) {
        if (!is_empty(folders[i]))
            sbx_preload_fail("leave its folders as they were", ENOTEMPTY);
    }
    if (sbx_fds_send(SBX_TEMPLATE_FD_CONTROL, &ready, sizeof(ready), NULL, 0) < 0)
        _exit(0);
    preload->is_child = true;
    sbx_preload_become_program(preload, SBX_TEMPLATE_FD_CONTROL);
}

enum sbx_preload_outcome sbx_preload_serve(struct sbx_preload *preload)
{
    struct sbx_template_msg ready = {.op = SBX_TEMPLATE_READY, .kind = preload->kind};
    int r = sbx_preload_classify(preload);

    if (r < 0)
        sbx_preload_fail("know every open file", -r);
    if (preload->is_alone) {
        become_the_program(preload);
        return SBX_PRELOAD_RUN;
    }
    r = try_run(preload);
    if (r == 1)
        return SBX_PRELOAD_RUN;
    if (r < 0)
        sbx_preload_fail("try a run", -r);
    r = drop_scratch();
    if (r < 0)
        sbx_preload_fail("drop its folders", -r);
    ready.memory_bytes = sbx_preload_own_bytes();
    if (sbx_fds_send(SBX_TEMPLATE_FD_CONTROL, &ready, sizeof(ready), NULL, 0) < 0)
        _exit(0);
    for (;;) {
        struct sbx_template_msg msg;
        int fds[BOX_FDS_MAX];

        r = sbx_fds_receive(SBX_TEMPLATE_FD_CONTROL, &msg, sizeof(msg), fds, BOX_FDS_MAX, 0);
        if (r < 0)
            _exit(0);
        /* Above what a program may have: see the fd numbers of the interpreter. */
        for (int i = 0; i < r; i++) {
            int high = fcntl(fds[i], F_DUPFD_CLOEXEC, SBX_TEMPLATE_FD_FIRST);

            (void)close(fds[i]);
            fds[i] = high;
        }
        if (make_box(preload, &msg, fds, (size_t)r))
            return SBX_PRELOAD_RUN;
    }
}
