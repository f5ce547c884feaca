/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/selftest/worker.h"

#include "common/auto.h"
#include "common/beside.h"
#include "common/clock.h"
#include "common/err.h"
#include "common/patience.h"
#include "rpc/client.h"
#include "rpc/server.h"
#include "sandboxd/selftest/catalog.h"
#include "sandboxd/selftest/outside.h"
#include "sandboxd/selftest/run.h"
#include "sandboxd/selftest/tester.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define DEADLINE_NS (400 * CR_NS_PER_S) /* half a minute where nobody else is busy */
#define CONNECT_NS (10 * CR_NS_PER_S)
#define CONNECT_PAUSE_MS 200
#define GONE_NS (3 * CR_NS_PER_S)
#define GONE_PAUSE_MS 20
#define RESPONSE_MAX (32U << 20)

static int load_program(struct sbx_tester *tester, struct cr_err *err)
{
    static uint8_t data[4U << 20];
    char path[PATH_MAX];
    CR_AUTO_CLOSE int fd = -1;
    ssize_t size;
    int r = cr_beside_find("sbprobe", path, err);

    if (r < 0)
        return r;
    fd = open(path, O_RDONLY | O_CLOEXEC);
    size = fd < 0 ? -1 : read(fd, data, sizeof(data));
    if (size <= 0 || size == (ssize_t)sizeof(data))
        return cr_err_sys(err, size < 0 ? errno : EFBIG, "read '%s'", path);
    tester->program = data;
    tester->program_size = (size_t)size;
    return 0;
}

/* The first call: a slow host may not even connect in the time that gRPC has for that. */
static int report_gaps(struct sbx_tester *tester, struct cr_err *err)
{
    const int64_t deadline_ns = cr_clock_mono_ns() + cr_patience_ns(CONNECT_NS);
    bool gaps[SBX_CONTROL_COUNT] = {false};
    uint32_t bits = 0;

    while (sbx_ask_gaps(tester, gaps) < 0) {
        if (cr_clock_mono_ns() > deadline_ns)
            return cr_err_set(err, ETIMEDOUT, "the sandboxes cannot be asked for their controls");
        (void)poll(NULL, 0, CONNECT_PAUSE_MS);
    }
    for (uint32_t i = 0; i < SBX_CONTROL_COUNT; i++)
        bits |= gaps[i] ? UINT32_C(1) << i : 0;
    sbx_tester_report(tester, SBX_OUTCOME_GAPS, (enum sbx_status)bits, "%s", "");
    return 0;
}

static int attack(struct sbx_tester *tester, struct cr_err *err)
{
    const struct rpc_channel_options options = {.target = tester->stack->address,
                                                .max_response_bytes = RESPONSE_MAX};
    int r;

    rpc_init();
    r = rpc_channel_new(&options, &tester->channel, err);
    if (r == 0)
        r = report_gaps(tester, err);
    if (r == 0)
        sbx_catalog_run(tester);
    (void)rpc_channel_free(tester->channel);
    rpc_fini();
    return r;
}

static const struct dirent *next_entry(DIR *dir)
{
    return readdir(dir); // NOLINT(concurrency-mt-unsafe): one thread reads this stream
}

/* True for a user id of the stack, which nobody else on this host has, or its token. */
static bool is_ours(const struct sbx_stack *stack, int proc_fd, const char *pid)
{
    struct stat info;

    if (fstatat(proc_fd, pid, &info, 0) < 0)
        return false;
    return (info.st_uid >= stack->uid_base && info.st_uid - stack->uid_base < SBX_STACK_IDS) ||
           sbx_view_has_token((pid_t)strtol(pid, NULL, 10), stack->token);
}

static int count_processes(const struct sbx_stack *stack)
{
    DIR *dir = opendir("/proc");
    int count = 0;

    for (const struct dirent *entry = dir ? next_entry(dir) : NULL; entry; entry = next_entry(dir))
        count += entry->d_name[0] >= '0' && entry->d_name[0] <= '9' &&
                 is_ours(stack, dirfd(dir), entry->d_name);
    if (dir)
        (void)closedir(dir);
    return count;
}

/* What is dead may be a zombie for a moment, until its new parent looks. */
static void report_leftovers(struct sbx_tester *tester, int stopped)
{
    const size_t first = sbx_catalog_after_stop();
    const int64_t deadline_ns = cr_clock_mono_ns() + cr_patience_ns(GONE_NS);
    int left;

    while ((left = count_processes(tester->stack)) > 0 && cr_clock_mono_ns() < deadline_ns)
        (void)poll(NULL, 0, GONE_PAUSE_MS);
    if (tester->only != SBX_EVERY_CONTROL)
        return;
    sbx_tester_report(tester, first, stopped == 0 ? SBX_PROBE_PASS : SBX_PROBE_FAIL, "%s",
                      stopped == 0 ? "exit status 0" : "killed, or another exit status");
    sbx_tester_report(tester, first + 1, left == 0 ? SBX_PROBE_PASS : SBX_PROBE_FAIL,
                      "%d processes", left);
}

_Noreturn static void work(struct sbx_tester *tester, const struct sbx_task *task)
{
    static struct sbx_stack stack; /* one for each process */
    static struct sbx_catalog catalog;
    struct cr_err err = CR_ERR_INIT;
    int r;

    tester->stack = &stack;
    sbx_catalog_load(&catalog, sbx_target_answers(task->target));
    tester->catalog = &catalog;
    r = load_program(tester, &err);
    if (r == 0)
        r = sbx_stack_start(&stack, task->target, task->socket, task->weakened, &err);
    if (r == 0) {
        r = attack(tester, &err);
        report_leftovers(tester, sbx_stack_stop(&stack));
    }
    if (r < 0)
        sbx_tester_report(tester, SBX_OUTCOME_PROBLEM, SBX_PROBE_ERROR, "%s", err.text);
    _exit(r < 0 ? 1 : 0);
}

int sbx_worker_start(const struct sbx_task *task, struct sbx_worker *ret_worker, struct cr_err *err)
{
    int ends[2];
    pid_t pid;

    if (pipe2(ends, O_CLOEXEC) < 0)
        return cr_err_sys(err, errno, "open a pipe");
    pid = fork();
    if (pid == 0) {
        struct sbx_tester tester = {
            .is_docker = task->target->is_docker,
            .outcome_fd = ends[1],
            .only = task->only,
        };

        /* So that the stack, whose lifelines we hold, ends with whoever wanted the answers. */
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        (void)close(ends[0]);
        work(&tester, task);
    }
    (void)close(ends[1]);
    if (pid < 0) {
        (void)close(ends[0]);
        return cr_err_sys(err, errno, "fork a tester");
    }
    *ret_worker =
        (struct sbx_worker){.pid = pid,
                            .outcome_fd = ends[0],
                            .deadline_ns = cr_clock_mono_ns() + cr_patience_ns(DEADLINE_NS)};
    return 0;
}

int sbx_worker_end(struct sbx_worker *worker, bool must_kill)
{
    int status = -1;

    if (must_kill)
        (void)kill(worker->pid, SIGKILL);
    (void)waitpid(worker->pid, &status, 0);
    cr_close_fd(&worker->outcome_fd);
    worker->pid = 0;
    return status == 0 ? 0 : -EIO;
}
