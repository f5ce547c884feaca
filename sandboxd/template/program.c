/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/init/program.h"

#include "common/auto.h"
#include "common/privilege.h"
#include "common/signals.h"
#include "sandboxd/backend/box_steps.h"
#include "sandboxd/template/kind.h"
#include "sandboxd/template/preload.h"
#include "sandboxd/wire/boxctl.h"
#include "sandboxd/wire/fds.h"
#include "sandboxd/wire/msg.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#define CHANNEL_FD 250 /* above what a program may see, while it waits */
#define REPORT_FD 3
/* The end of a zip archive and the largest comment behind it: such a main.py is not Python text. */
#define ZIP_END "PK\5\6"
#define ZIP_TAIL_BYTES (22 + 65535)

enum load_fd {
    LOAD_PAYLOAD,
    LOAD_STDIN,
    LOAD_STDOUT,
    LOAD_STDERR
};

/* ---- fds ---- */

/* Returns the kind of an open fd, or -EBADF for one that the interpreter cannot have opened. */
static int find_kind(const struct sbx_preload *preload, const struct stat *stat)
{
    for (int i = 0; i < 3; i++) {
        if (stat->st_dev == preload->streams[i].device && stat->st_ino == preload->streams[i].inode)
            return SBX_PRELOAD_STDIN + i;
    }
    if (S_ISREG(stat->st_mode) && stat->st_nlink == 0)
        return SBX_PRELOAD_TEMPORARY;
    return S_ISCHR(stat->st_mode) && stat->st_rdev == makedev(1, 3) ? SBX_PRELOAD_NULL : -EBADF;
}

int sbx_preload_classify(struct sbx_preload *preload)
{
    struct sbx_preload_fds *fds = &preload->fds;

    *fds = (struct sbx_preload_fds){.count = 0};
    for (int fd = 0; fd < SBX_TEMPLATE_FD_FIRST; fd++) {
        struct stat stat;
        int kind;

        if (fstat(fd, &stat) < 0)
            continue;
        kind = find_kind(preload, &stat);
        if (kind < 0 || fds->count == SBX_PRELOAD_FDS_MAX)
            return -EBADF;
        if (kind != SBX_PRELOAD_NULL)
            fds->list[fds->count++] = (struct sbx_preload_fd){
                .fd = fd,
                .kind = (enum sbx_preload_fd_kind)kind,
                .flags = (fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0 ? O_CLOEXEC : 0,
            };
    }
    return 0;
}

/* A file description that was shared over fork would be a channel between boxes. */
static int replace_file(const struct sbx_preload_fd *entry)
{
    CR_AUTO_CLOSE int fd =
        openat(AT_FDCWD, "/tmp", O_TMPFILE | O_RDWR | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);

    return fd < 0 || dup3(fd, entry->fd, entry->flags) < 0 ? -errno : 0;
}

int sbx_preload_replace_fds(const struct sbx_preload *preload, const int stdio[3], bool want_files,
                            bool want_streams)
{
    for (size_t i = 0; i < preload->fds.count; i++) {
        const struct sbx_preload_fd *entry = &preload->fds.list[i];

        if (entry->kind == SBX_PRELOAD_TEMPORARY) {
            int r = want_files ? replace_file(entry) : 0;

            if (r < 0)
                return r;
        } else if (want_streams && dup3(stdio[entry->kind], entry->fd, entry->flags) < 0) {
            return -errno;
        }
    }
    return 0;
}

/* Keeps the channel alone of everything that the template holds. */
static int close_high_fds(int channel_fd)
{
    if (channel_fd != CHANNEL_FD && dup3(channel_fd, CHANNEL_FD, O_CLOEXEC) < 0)
        return -errno;
    if (channel_fd < SBX_TEMPLATE_FD_FIRST)
        (void)close(channel_fd);
    if (close_range(SBX_TEMPLATE_FD_FIRST, CHANNEL_FD - 1, 0) < 0 ||
        close_range(CHANNEL_FD + 1, ~0U, 0) < 0)
        return -errno;
    return 0;
}

/* ---- becoming the program ---- */

/* Each of these is what a program without a template has; the order is explained in privilege.h. */
static int give_up_everything(void)
{
    int r = setsid() < 0 ? -errno : cr_privilege_drop(SBX_PROGRAM_UID, SBX_PROGRAM_GID, NULL);

    if (r < 0)
        return r;
    r = sbx_box_die_with_parent();
    if (r < 0)
        return r;
    if (getppid() != 1)
        return -ESRCH;
    /* A change of ids clears it; a program that was executed has it. */
    return prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) < 0 ? -errno : 0;
}

static int prepare(const struct sbx_preload *preload, int *ret_listener_fd)
{
    int r = give_up_everything();

    if (r == 0)
        r = sbx_preload_replace_fds(preload, NULL, true, false);
    if (r < 0)
        return r;
    sbx_preload_populate(preload);
    return sbx_program_load_filter(SBX_TEMPLATE_FD_SECCOMP, ret_listener_fd);
}

/* ---- what was asked for ---- */

/* How many leading entries of `list` are those of `lines`; -1 when one of those is missing. */
static long match(char *const *list, const char *const *lines, long at)
{
    for (size_t i = 0; lines[i]; i++, at++) {
        if (!list[at] || strcmp(list[at], lines[i]) != 0)
            return -1;
    }
    return at;
}

static bool is_archive(int fd, off_t size)
{
    static char tail[ZIP_TAIL_BYTES];
    off_t at = size > (off_t)sizeof(tail) ? size - (off_t)sizeof(tail) : 0;
    ssize_t got = pread(fd, tail, sizeof(tail), at);

    return got > 0 && memmem(tail, (size_t)got, ZIP_END, strlen(ZIP_END));
}

/* The interpreter has looked at main.py of the template already: a folder or archive it would run
 * in another way. */
static bool is_plain_file(const char *path)
{
    CR_AUTO_CLOSE int fd = openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
    struct stat stat;

    if (fd < 0)
        return errno == ENOENT; /* the interpreter says so */
    return fstat(fd, &stat) == 0 && S_ISREG(stat.st_mode) && !is_archive(fd, stat.st_size);
}

/* Of pytest, whose arguments were read: what it can be told late, see stop_early() of boot.py. */
static bool has_late_args(const struct sbx_preload *preload)
{
    return preload->extra_count == 0 ||
           (preload->extra_count == 1 && strcmp(preload->extra_args[0], SBX_RUN_STOP_ARG) == 0);
}

/* True when the template can go on with it; then its further arguments are kept. */
static bool is_suited(struct sbx_preload *preload, const struct sbx_program_vectors *vectors)
{
    const struct sbx_runtime *runtime = sbx_template_runtime(preload->kind);
    long args = match(vectors->argv, runtime->argv, 0);
    long environment = match(vectors->envp, sbx_environment, 0);

    if (environment >= 0)
        environment = match(vectors->envp, runtime->environment, environment);
    if (args < 0 || environment < 0 || vectors->envp[environment])
        return false;
    if (preload->kind == SBX_TEMPLATE_PYTHON && !is_plain_file(runtime->entry_file))
        return false;
    preload->extra_args = vectors->argv + args;
    for (preload->extra_count = 0; preload->extra_args[preload->extra_count];)
        preload->extra_count++;
    return preload->kind != SBX_TEMPLATE_PYTEST || has_late_args(preload);
}

/* Those of the box; what was there until now was the template's, which has more. */
static int set_limits(const struct sbx_adopt_go *go)
{
    for (size_t i = 0; i < SBX_ADOPT_LIMITS; i++) {
        const struct rlimit limit = {.rlim_cur = go->limits[i].soft,
                                     .rlim_max = go->limits[i].hard};

        if (setrlimit((__rlimit_resource_t)go->limits[i].resource, &limit) < 0)
            return -errno;
    }
    return 0;
}

_Noreturn static void fail(int channel_fd, enum sbx_stage stage, int error)
{
    const struct sbx_adopt_failure failure = {.stage = (uint32_t)stage, .error = -error};

    (void)sbx_fds_send(channel_fd, &failure, sizeof(failure), NULL, 0);
    _exit(127);
}

/* As if there had been no template: the same process, user and filter, another program. */
_Noreturn static void execute(const struct sbx_program_vectors *vectors, const int stdio[3],
                              const struct sbx_adopt_go *go)
{
    int r = cr_signals_reset();

    for (int i = 0; r == 0 && i < 3; i++)
        r = dup3(stdio[i], i, 0) < 0 ? -errno : 0;
    if (r == 0 &&
        (dup3(CHANNEL_FD, REPORT_FD, O_CLOEXEC) < 0 || close_range(REPORT_FD + 1, ~0U, 0) < 0))
        fail(CHANNEL_FD, SBX_STAGE_INIT, -errno);
    if (r < 0)
        fail(CHANNEL_FD, SBX_STAGE_INIT, r);
    r = set_limits(go);
    if (r < 0)
        fail(REPORT_FD, SBX_STAGE_LIMITS, r);
    (void)execve(vectors->argv[0], vectors->argv, vectors->envp);
    fail(REPORT_FD, SBX_STAGE_EXEC, -errno);
}

/* The box ends before it has anything to do: nobody is left to tell. */
static int wait_for_go(int listener_fd, struct sbx_adopt_go *ret_go, int fds[SBX_INIT_LOAD_FDS])
{
    const struct sbx_adopt_hello hello = {.version = SBX_ADOPT_VERSION};
    int r = sbx_fds_send(CHANNEL_FD, &hello, sizeof(hello), &listener_fd, listener_fd >= 0);

    cr_close_fd(&listener_fd);
    if (r == 0)
        r = sbx_fds_receive(CHANNEL_FD, ret_go, sizeof(*ret_go), fds, SBX_INIT_LOAD_FDS, 0);
    if (r != SBX_INIT_LOAD_FDS || ret_go->version != SBX_ADOPT_VERSION)
        _exit(127);
    for (int i = 0; i < SBX_INIT_LOAD_FDS; i++) {
        int high = fcntl(fds[i], F_DUPFD_CLOEXEC, SBX_TEMPLATE_FD_FIRST);

        if (high < 0)
            return -errno;
        (void)close(fds[i]);
        fds[i] = high;
    }
    return 0;
}

void sbx_preload_become_program(struct sbx_preload *preload, int channel_fd)
{
    struct sbx_program_vectors vectors = {NULL, NULL};
    struct sbx_adopt_go go = {0};
    int fds[SBX_INIT_LOAD_FDS] = {-1, -1, -1, -1};
    int listener_fd = -1;
    int r = prepare(preload, &listener_fd);

    if (r == 0)
        r = close_high_fds(channel_fd);
    if (r < 0)
        fail(channel_fd, SBX_STAGE_IDENTITY, r);
    r = wait_for_go(listener_fd, &go, fds);
    if (r == 0)
        r = sbx_program_read_vectors(fds[LOAD_PAYLOAD], &vectors);
    if (r < 0 || !vectors.argv || !vectors.envp)
        fail(CHANNEL_FD, SBX_STAGE_PAYLOAD, r);
    if (!is_suited(preload, &vectors))
        execute(&vectors, fds + LOAD_STDIN, &go);
    r = sbx_preload_replace_fds(preload, fds + LOAD_STDIN, false, true);
    if (r < 0)
        fail(CHANNEL_FD, SBX_STAGE_INIT, r);
    r = set_limits(&go);
    if (r < 0)
        fail(CHANNEL_FD, SBX_STAGE_LIMITS, r);
    (void)close_range(SBX_TEMPLATE_FD_FIRST, ~0U, 0); /* and with it the channel: it has begun */
}
