/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/native/sweep.h"

#include "common/auto.h"
#include "common/clock.h"
#include "common/err.h"
#include "common/log.h"
#include "common/patience.h"
#include "sandboxd/backend/cgroup.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sys/file.h>

#define PREFIX "crisol-native-"
#define DEADLINE_NS (5 * CR_NS_PER_S)
#define PAUSE_MS 5

static void closedirp(DIR **dir)
{
    if (*dir)
        (void)closedir(*dir);
}

static const struct dirent *next_entry(DIR *dir)
{
    return readdir(dir); // NOLINT(concurrency-mt-unsafe): this process has one thread
}

/* A stream over its own copy of `fd`, from the first entry. */
static DIR *open_stream(int fd)
{
    int copy = openat(fd, ".", O_DIRECTORY | O_RDONLY | O_CLOEXEC);
    DIR *dir = copy < 0 ? NULL : fdopendir(copy);

    if (!dir && copy >= 0)
        (void)close(copy);
    return dir;
}

/* Whoever is frozen hears of it when it goes on. */
static void thaw(int fd)
{
    (void)sbx_cgroup_write(fd, sbx_cgroup_v1.files[SBX_CGROUP_FILE_FREEZE].name,
                           sbx_cgroup_v1.freeze_words[0]);
}

/* SIGKILL to all members. A pid cannot be reused between read and kill unless it wrapped around. */
static void kill_members(int fd)
{
    char text[16384];
    char *save = NULL;

    if (sbx_cgroup_write(fd, "cgroup.kill", "1") == 0 ||
        sbx_cgroup_read_members(fd, text, sizeof(text)) < 0)
        return;
    for (const char *word = strtok_r(text, "\n", &save); word; word = strtok_r(NULL, "\n", &save)) {
        long pid = strtol(word, NULL, 10);

        if (pid > 1)
            (void)kill((pid_t)pid, SIGKILL);
    }
}

/* Whoever may not remove a folder today may not in five seconds either. */
static bool is_refusal(int errnum)
{
    return errnum == EACCES || errnum == EPERM || errnum == EROFS;
}

/* One attempt to empty and remove the groups in `base_fd`. Returns how many are left, or -errno
 * when one of them is not ours to remove. */
static int clear_boxes(int base_fd)
{
    __attribute__((cleanup(closedirp))) DIR *dir = open_stream(base_fd);
    int left = 0;

    if (!dir)
        return 0;
    for (const struct dirent *entry = next_entry(dir); entry; entry = next_entry(dir)) {
        if (entry->d_type != DT_DIR || entry->d_name[0] == '.')
            continue;
        if (unlinkat(base_fd, entry->d_name, AT_REMOVEDIR) < 0 && errno != ENOENT) {
            if (is_refusal(errno))
                return -errno;
            CR_AUTO_CLOSE int fd =
                openat(base_fd, entry->d_name, O_DIRECTORY | O_RDONLY | O_CLOEXEC | O_NOFOLLOW);

            if (fd >= 0) {
                kill_members(fd);
                thaw(fd);
            }
            left++;
        }
    }
    return left;
}

/* Where it is, as long as this process has a /proc; its name at least. */
static void tell_path(int fd, const char *name, char *ret_text, size_t size)
{
    char own[32];
    ssize_t n;

    (void)snprintf(own, sizeof(own), "/proc/self/fd/%d", fd);
    n = readlinkat(AT_FDCWD, own, ret_text, size - 1);
    if (n > 0)
        ret_text[n] = '\0';
    else
        (void)snprintf(ret_text, size, "%s", name);
}

static int refuse(int base_fd, const char *name, int errnum, struct cr_err *err)
{
    char path[256];

    tell_path(base_fd, name, path, sizeof(path));
    return cr_err_sys(err, errnum,
                      "remove control group '%s', which a sandboxd left that has ended: whoever it "
                      "belongs to, or root, removes it with find '%s' -depth -type d -delete",
                      name, path);
}

/* Empties `base_fd` and removes it from `own_fd`. */
static int clear_base(int own_fd, int base_fd, const char *name, struct cr_err *err)
{
    int64_t deadline_ns = cr_clock_mono_ns() + cr_patience_ns(DEADLINE_NS);

    for (;;) {
        int left;

        kill_members(base_fd);
        left = clear_boxes(base_fd);
        if (left == 0 && (unlinkat(own_fd, name, AT_REMOVEDIR) == 0 || errno == ENOENT))
            return 0;
        if (left < 0 || (left == 0 && is_refusal(errno)))
            return refuse(base_fd, name, left < 0 ? -left : errno, err);
        if (cr_clock_mono_ns() > deadline_ns)
            return cr_err_set(err, EBUSY, "control group '%s' still has members after SIGKILL",
                              name);
        (void)poll(NULL, 0, PAUSE_MS);
    }
}

/* True when nobody alive holds the folder; the lock then is ours until the fd is closed. */
static bool is_orphan(int fd)
{
    return flock(fd, LOCK_EX | LOCK_NB) == 0;
}

/*
 * One that is locked may be our own. What is not ours to remove in the freezer
 * limits nobody: it stays, and is said.
 */
static int sweep_hierarchy(const struct sbx_cgroup_host *host, uint32_t at, uint32_t *count,
                           struct cr_err *err)
{
    const int own_fd = host->own_fds[at];
    __attribute__((cleanup(closedirp))) DIR *dir = open_stream(own_fd);

    if (!dir)
        return cr_err_sys(err, errno, "list our own control group");
    for (const struct dirent *entry = next_entry(dir); entry; entry = next_entry(dir)) {
        struct cr_err why = CR_ERR_INIT;
        CR_AUTO_CLOSE int fd = -1;
        int r;

        if (strncmp(entry->d_name, PREFIX, strlen(PREFIX)) != 0)
            continue;
        fd = openat(own_fd, entry->d_name, O_DIRECTORY | O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
        if (fd < 0 || !is_orphan(fd))
            continue;
        r = clear_base(own_fd, fd, entry->d_name, &why);
        if (is_refusal(-r) && sbx_cgroup_is_freezer_alone(host, at)) {
            cr_log_warn("a control group of the freezer stays error=\"%s\"", why.text);
            continue;
        }
        if (r < 0)
            return cr_err_set(err, -r, "%s", why.text);
        cr_log_warn("removed a control group of a backend that is gone name=%s", entry->d_name);
        (*count)++;
    }
    return 0;
}

/* That of the freezer first: in the others nobody ends who is frozen. */
static uint32_t in_order(const struct sbx_cgroup_host *host, uint32_t step)
{
    const int first = host->hierarchy[SBX_CONTROLLER_FREEZER];

    return (step + (first < 0 ? 0 : (uint32_t)first)) % host->hierarchy_count;
}

int sbx_sweep_predecessors(const struct sbx_cgroup_host *host, uint32_t *ret_count,
                           struct cr_err *err)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < host->hierarchy_count; i++) {
        int r = sweep_hierarchy(host, in_order(host, i), &count, err);

        if (r < 0)
            return r;
    }
    *ret_count = count;
    return 0;
}

int sbx_sweep_own(const struct sbx_cgroup_host *host, struct cr_err *err)
{
    int result = 0;

    for (uint32_t i = 0; i < host->hierarchy_count; i++) {
        const uint32_t at = in_order(host, i);
        int r = host->base_fds[at] < 0
                    ? 0
                    : clear_base(host->own_fds[at], host->base_fds[at], host->base_name, err);

        if (r < 0)
            result = r;
    }
    return result;
}
