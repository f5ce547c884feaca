/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/supervisor/rootless.h"

#include "common/auto.h"
#include "common/clock.h"
#include "common/err.h"
#include "common/log.h"
#include "common/patience.h"
#include "common/unconst.h"
#include "sandboxd/supervisor/subids.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <pwd.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sys/mount.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/wait.h>

#define SUBIDS_FILE_MAX (1U << 20)
#define NUMBER_SIZE 16
#define PASSWD_SIZE 16384
#define MAPPING_MS 10000
/* What the helper ends with. */
#define MAPPED 0
#define MAPPED_NOTHING 1
#define MAPPED_HALF 2 /* users and no groups: cannot be taken back */

static const char user_mapper[] = "/usr/bin/newuidmap";
static const char group_mapper[] = "/usr/bin/newgidmap";

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
static int map_one_id(uid_t uid, gid_t gid, struct cr_err *err)
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

/* ---- ids of the user beside his own ---- */

struct ranges {
    struct sbx_subids users;
    struct sbx_subids groups;
};

static bool read_range(const char *path, const char *name, uid_t uid, struct sbx_subids *ret_range)
{
    CR_AUTO_CLOSE int fd = openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
    CR_AUTO_FREE char *text = malloc(SUBIDS_FILE_MAX + 1);
    size_t size = 0;
    ssize_t n;

    if (fd < 0 || !text)
        return false;
    while (size < SUBIDS_FILE_MAX && (n = read(fd, text + size, SUBIDS_FILE_MAX - size)) > 0)
        size += (size_t)n;
    text[size] = '\0';
    return sbx_subids_find(text, name, uid, ret_range);
}

/* NULL: all of it is there; else what is missing. */
static const char *find_ranges(uid_t uid, struct ranges *ret_ranges)
{
    char buffer[PASSWD_SIZE];
    struct passwd entry;
    struct passwd *found = NULL;
    const char *name;

    if (faccessat(AT_FDCWD, user_mapper, X_OK, 0) < 0 ||
        faccessat(AT_FDCWD, group_mapper, X_OK, 0) < 0)
        return "newuidmap and newgidmap are not there (package uidmap)";
    (void)getpwuid_r(uid, &entry, buffer, sizeof(buffer), &found);
    name = found ? found->pw_name : NULL;
    if (!read_range("/etc/subuid", name, uid, &ret_ranges->users))
        return "/etc/subuid gives this user no ids";
    if (!read_range("/etc/subgid", name, uid, &ret_ranges->groups))
        return "/etc/subgid gives this user no ids";
    return NULL;
}

static uint32_t count_of(const struct ranges *ranges)
{
    return ranges->users.count < ranges->groups.count ? ranges->users.count : ranges->groups.count;
}

/* In the helper. True when the program says that it did it. */
static bool run_mapper(const char *path, pid_t target, unsigned int own, uint32_t first,
                       uint32_t count)
{
    char numbers[4][NUMBER_SIZE];
    const char *const argv[] = {path, numbers[0], "0",        numbers[1], "1",
                                "1",  numbers[2], numbers[3], NULL};
    char *const environment[] = {NULL};
    int status = 0;
    pid_t pid;

    (void)snprintf(numbers[0], NUMBER_SIZE, "%d", (int)target);
    (void)snprintf(numbers[1], NUMBER_SIZE, "%u", own);
    (void)snprintf(numbers[2], NUMBER_SIZE, "%u", first);
    (void)snprintf(numbers[3], NUMBER_SIZE, "%u", count);
    pid = fork();
    if (pid == 0) {
        (void)execve(path, cr_unconst(argv), environment);
        _exit(127);
    }
    return pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) &&
           WEXITSTATUS(status) == 0;
}

/* In a process that stays outside, where the user may have ids mapped for him. */
static _Noreturn void help(int start_fd, pid_t target, const struct ranges *ranges)
{
    const uint32_t count = count_of(ranges);
    char go;

    if (read(start_fd, &go, 1) != 1)
        _exit(MAPPED_NOTHING);
    if (!run_mapper(user_mapper, target, getuid(), ranges->users.first, count))
        _exit(MAPPED_NOTHING);
    if (!run_mapper(group_mapper, target, getgid(), ranges->groups.first, count))
        _exit(MAPPED_HALF);
    _exit(MAPPED);
}

/* How it ended. */
static int await_helper(pid_t pid)
{
    CR_AUTO_CLOSE int pidfd = pidfd_open(pid, 0);
    struct pollfd watch = {.fd = pidfd, .events = POLLIN};
    int status = 0;

    if (pidfd < 0 || poll(&watch, 1, cr_patience_ms(MAPPING_MS)) != 1)
        (void)kill(pid, SIGKILL);
    if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
        return MAPPED_HALF;
    return WEXITSTATUS(status);
}

/* ---- the namespaces ---- */

static int unshare_both(struct cr_err *err)
{
    if (unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0)
        return 0;
    return cr_err_sys(err, errno,
                      "--rootless: make a user namespace (sysctl user.max_user_namespaces, "
                      "kernel.unprivileged_userns_clone or AppArmor may forbid it)");
}

/* *ret_ids stays 0 when the mappers refuse and have mapped nothing. */
static int enter_with_ranges(const struct ranges *ranges, uint32_t *ret_ids, struct cr_err *err)
{
    CR_AUTO_CLOSE int start_fd = -1;
    CR_AUTO_CLOSE int helper_fd = -1;
    const pid_t own = getpid();
    int pair[2];
    pid_t pid;
    int outcome;
    int r;

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        return cr_err_sys(err, errno, "--rootless: open a socket");
    start_fd = pair[0];
    helper_fd = pair[1];
    pid = fork();
    if (pid < 0)
        return cr_err_sys(err, errno, "--rootless: fork");
    if (pid == 0) {
        cr_close_fd(&start_fd);
        help(helper_fd, own, ranges);
    }
    r = unshare_both(err);
    if (r == 0 && send(start_fd, "", 1, MSG_NOSIGNAL) != 1)
        r = cr_err_sys(err, errno, "--rootless: start to map ids");
    cr_close_fd(&start_fd);
    outcome = await_helper(pid);
    if (r == 0 && outcome == MAPPED_HALF)
        r = cr_err_set(err, EIO, "--rootless: newgidmap did not map the groups of /etc/subgid");
    if (r == 0 && outcome == MAPPED)
        *ret_ids = count_of(ranges);
    return r;
}

int sbx_rootless_enter(uint32_t *ret_ids, struct cr_err *err)
{
    const uid_t uid = geteuid();
    const gid_t gid = getegid();
    struct ranges ranges;
    const char *missing;
    uint32_t ids = 0;
    int r;

    if (uid == 0)
        return cr_err_set(err, EINVAL, "--rootless: is for an ordinary user, and this is root");
    missing = find_ranges(uid, &ranges);
    r = missing ? unshare_both(err) : enter_with_ranges(&ranges, &ids, err);
    if (r < 0)
        return r;
    if (ids == 0) {
        cr_log_info("one user id for all sandboxes why=\"%s\"",
                    missing ? missing : "newuidmap refuses; what it says is above");
        r = map_one_id(uid, gid, err);
    } else if (setgroups(0, NULL) < 0) {
        r = cr_err_sys(err, errno, "give up the groups of this user");
    }
    if (r < 0)
        return cr_err_wrap(err, "--rootless");
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        return cr_err_sys(err, errno, "--rootless: keep our mounts to ourselves");
    *ret_ids = ids;
    return 0;
}
