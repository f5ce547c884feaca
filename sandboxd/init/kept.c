/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/init/kept.h"

#include "common/auto.h"
#include "sandboxd/init/leader.h"
#include "sandboxd/wire/msg.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sys/socket.h>
#include <sys/wait.h>

#define STAT_MAX 1024

/* ---- its start and its calls ---- */

static int fail(struct sbx_program_failure *failure, int error)
{
    *failure = (struct sbx_program_failure){.stage = SBX_STAGE_INIT, .error = error};
    return -1;
}

int sbx_kept_start(struct sbx_kept *kept, int payload_fd, int filter_fd,
                   struct sbx_program_failure *ret_failure)
{
    CR_AUTO_CLOSE int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    CR_AUTO_CLOSE int theirs_fd = -1;
    int pair[2];
    struct sbx_leader_plan plan = {
        .payload_fd = payload_fd, .seccomp_fd = filter_fd, .private_fd = -1, .is_watched = true};

    if (null_fd < 0 || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return fail(ret_failure, errno);
    kept->cells.socket_fd = pair[0];
    theirs_fd = pair[1];
    plan.stdio[0] = theirs_fd;
    plan.stdio[1] = null_fd;
    plan.stdio[2] = null_fd;
    kept->pid = sbx_leader_start(&plan, &kept->listener_fd, ret_failure);
    if (kept->pid >= 0)
        return 0;
    sbx_kept_forget(kept);
    return -1;
}

int sbx_kept_wake(struct sbx_kept *kept, int streams[3])
{
    int r;

    for (int i = 0; i < 3; i++) {
        kept->cells.streams[i] = streams[i];
        streams[i] = -1;
    }
    r = sbx_cells_hand_out(&kept->cells);
    if (kept->is_parked)
        (void)kill(-1, SIGCONT);
    kept->is_parked = false;
    kept->count = 0;
    return r;
}

void sbx_kept_forget(struct sbx_kept *kept)
{
    cr_close_fd(&kept->cells.socket_fd);
    cr_close_fd(&kept->listener_fd);
    kept->cells.number = 0;
    kept->pid = -1;
    kept->is_parked = false;
    kept->count = 0;
}

/* ---- who is there ---- */

int sbx_kept_parse_start(const char *text, uint64_t *ret_start)
{
    /* The name may hold anything, a ')' too; behind the last are fields 3 to 22 (proc(5)). */
    const char *at = strrchr(text, ')');
    char *end = NULL;
    uint64_t start;

    for (int i = 2; at && i < 22; i++) {
        at = strchr(at, ' ');
        at = at ? at + 1 : NULL;
    }
    if (!at || *at < '0' || *at > '9')
        return -EPROTO;
    errno = 0;
    start = strtoull(at, &end, 10);
    if (errno != 0 || (*end != ' ' && *end != '\n' && *end != '\0'))
        return -EPROTO;
    *ret_start = start;
    return 0;
}

static int read_start(int proc_fd, const char *name, uint64_t *ret_start)
{
    char text[STAT_MAX];
    CR_AUTO_CLOSE int fd = -1;
    ssize_t n;

    (void)snprintf(text, sizeof(text), "%s/stat", name);
    fd = openat(proc_fd, text, O_RDONLY | O_CLOEXEC);
    n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
    if (n < 0)
        return -errno;
    text[n] = '\0';
    return sbx_kept_parse_start(text, ret_start);
}

/*
 * Calls `each` for every other process, until it returns a negative errno, which
 * is returned then. One that is gone meanwhile is left out.
 */
static int for_all(int (*each)(struct sbx_kept *kept, const struct sbx_kept_process *process,
                               void *user),
                   struct sbx_kept *kept, void *user)
{
    DIR *proc = opendir("/proc");
    int r = 0;

    if (!proc)
        return -errno;
    while (r == 0) {
        const struct dirent *entry = readdir(proc); // NOLINT(concurrency-mt-unsafe): one thread
        struct sbx_kept_process process = {.pid = 0};

        if (!entry)
            break;
        process.pid = (pid_t)strtol(entry->d_name, NULL, 10);
        if (process.pid > 1 && read_start(dirfd(proc), entry->d_name, &process.start) == 0)
            r = each(kept, &process, user);
    }
    (void)closedir(proc);
    return r;
}

static int note(struct sbx_kept *kept, const struct sbx_kept_process *process, void *user)
{
    (void)user;
    if (kept->count == SBX_KEPT_MOST)
        return -E2BIG;
    kept->members[kept->count++] = *process;
    return 0;
}

/* One kill(2) for all, which no fork slips through: who forks is stopped before, or its child is
 * there already. */
bool sbx_kept_park(struct sbx_kept *kept)
{
    (void)kill(-1, SIGSTOP);
    kept->count = 0;
    kept->is_parked = for_all(note, kept, NULL) == 0;
    return kept->is_parked;
}

/* ---- the end of the others ---- */

static bool is_member(const struct sbx_kept *kept, const struct sbx_kept_process *process)
{
    for (size_t i = 0; i < kept->count; i++) {
        if (kept->members[i].pid == process->pid && kept->members[i].start == process->start)
            return true;
    }
    return false;
}

struct ending {
    uint32_t killed;
    bool has_reaped;
};

/* One whose parent is about to end as well is ours to reap when that has been reaped. */
static int end_other(struct sbx_kept *kept, const struct sbx_kept_process *process, void *user)
{
    struct ending *ending = user;
    int status = 0;

    if (is_member(kept, process))
        return 0;
    (void)kill(process->pid, SIGKILL);
    if (waitpid(process->pid, &status, 0) != process->pid)
        return 0;
    ending->has_reaped = true;
    ending->killed += WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
    return 0;
}

/* All are stopped meanwhile, so that each round finds fewer; what is left in the end are dead
 * children of those that stay. */
uint32_t sbx_kept_end_others(struct sbx_kept *kept)
{
    struct ending ending = {.has_reaped = true};

    if (!kept->is_parked) {
        sbx_kept_forget(kept);
        return sbx_leader_kill_rest();
    }
    (void)kill(-1, SIGSTOP);
    while (ending.has_reaped) {
        ending.has_reaped = false;
        (void)for_all(end_other, kept, &ending);
    }
    return ending.killed;
}
