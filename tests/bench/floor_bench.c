/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What does the kernel alone ask for? The calls that make a box, by a small
 * process that does nothing else: no RPC, no supervision, no counters, nobody
 * to be told. Each series does what the one before it does and one thing more;
 * they take turns. Behind them the same as fast as it goes, a process for each
 * processor. Prints one JSON object.
 */
#include "common/auto.h"
#include "common/clock.h"
#include "common/err.h"
#include "common/log.h"
#include "common/privilege.h"
#include "sandboxd/backend/box_steps.h"
#include "sandboxd/backend/cgroup.h"
#include "sandboxd/backend/seccomp.h"
#include "sandboxd/backend/userns.h"
#include "sandboxd/native/box.h"
#include "sandboxd/native/rootfs.h"
#include "sandboxd/native/sweep.h"
#include "sandboxd/wire/msg.h"
#include "tests/bench/options.h"
#include "tests/bench/samples.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <linux/filter.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define PROGRAM "/usr/bin/true"
#define GROUP 1
#define WARM_UP 20
#define SPARSE_MOST 100U
#define WORKERS_MAX 64
#define WORKSPACE_BYTES (UINT64_C(64) << 20)
#define WORKSPACE_INODES 4096

/* In this order; each has those before it. */
enum step {
    STEP_FORK,
    STEP_NAMESPACES,
    STEP_GROUPS,
    STEP_NETWORK,
    STEP_MOUNTS,
    STEP_RIGHTS,
    STEP_COUNT,
};

static const char *const step_names[] = {"fork and exec", "+ namespaces", "+ control groups",
                                         "+ network",     "+ mounts",     "+ user and filter"};

/* What is there ahead, and used by one box after the other. */
struct floor {
    struct sbx_cgroup_host host;
    struct sbx_cgroup group;
    int net_fd;
    int userns_fd;
    struct sock_fprog filter;
};

static int make_groups(struct floor *floor, struct cr_err *err)
{
    int r = sbx_cgroup_host_find(&floor->host, err);

    if (r == 0)
        r = sbx_cgroup_host_open(&floor->host, err);
    if (r == 0)
        r = sbx_cgroup_make(&floor->host, GROUP, err);
    if (r == 0)
        r = sbx_cgroup_open(&floor->host, GROUP, &floor->group, err);
    return r == 0 ? sbx_cgroup_open_files(&floor->group, err) : r;
}

static int make_network(int *ret_fd, struct cr_err *err)
{
    CR_AUTO_CLOSE int home_fd = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    CR_AUTO_CLOSE int net_fd = -1;
    int r = home_fd < 0 ? -errno : sbx_box_make_network();

    if (r < 0)
        return cr_err_sys(err, -r, "make a network");
    net_fd = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    if (net_fd < 0 || setns(home_fd, CLONE_NEWNET) < 0)
        return cr_err_sys(err, errno, "leave a network");
    *ret_fd = cr_take_fd(&net_fd);
    return 0;
}

static int map_filter(struct sock_fprog *ret_filter, struct cr_err *err)
{
    CR_AUTO_CLOSE int fd = -1;
    struct stat info;
    void *data;
    int r = sbx_seccomp_build(&fd, err);

    if (r < 0)
        return r;
    if (fstat(fd, &info) < 0)
        return cr_err_sys(err, errno, "look at the filter");
    data = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (data == MAP_FAILED)
        return cr_err_sys(err, errno, "map the filter");
    *ret_filter = (struct sock_fprog){
        .len = (unsigned short)((size_t)info.st_size / sizeof(struct sock_filter)), .filter = data};
    return 0;
}

/* The root file system comes last: behind it nothing of the host can be opened. */
static int prepare(struct floor *floor, struct cr_err *err)
{
    int r = make_groups(floor, err);

    if (r == 0)
        r = make_network(&floor->net_fd, err);
    if (r == 0)
        r = sbx_userns_make(SBX_USERNS_DEFAULT_BASE, &floor->userns_fd, err);
    if (r == 0)
        r = map_filter(&floor->filter, err);
    return r == 0 ? sbx_rootfs_enter(NULL, SBX_CONTROL_COUNT, err) : r;
}

/* ---- in the box ---- */

static void need(int r)
{
    if (r < 0)
        _exit(126);
}

static void enter_groups(const struct floor *floor)
{
    int fds[SBX_CONTROLLER_COUNT];
    size_t count =
        sbx_cgroup_clone_fd(&floor->group) >= 0 ? 0 : sbx_cgroup_entries(&floor->group, fds);

    need(sbx_box_enter_groups(fds, count));
}

static void give_up_rights(const struct floor *floor)
{
    need(sbx_box_enter_identity(floor->userns_fd));
    need(cr_privilege_drop((uid_t)SBX_USERNS_PROGRAM_ID, (gid_t)SBX_USERNS_PROGRAM_ID, NULL));
    need((int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &floor->filter));
}

_Noreturn static void be_box(const struct floor *floor, enum step step, int workspace_fd)
{
    char name[] = PROGRAM;
    char *const argv[] = {name, NULL};
    char *const environment[] = {NULL};

    if (step >= STEP_GROUPS)
        enter_groups(floor);
    if (step >= STEP_NETWORK)
        need(setns(floor->net_fd, CLONE_NEWNET));
    if (step >= STEP_MOUNTS) {
        need(mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC,
                   "subset=pid,hidepid=invisible"));
        need(sbx_box_mount_workspace(workspace_fd));
    }
    if (step >= STEP_RIGHTS)
        give_up_rights(floor);
    (void)execve(name, argv, environment);
    _exit(127);
}

/* ---- outside ---- */

static long clone_box(const struct floor *floor, enum step step)
{
    int group_fd = sbx_cgroup_clone_fd(&floor->group);
    struct clone_args args = {.exit_signal = SIGCHLD};

    if (step >= STEP_NAMESPACES)
        args.flags = CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWUTS;
    if (step >= STEP_GROUPS && group_fd >= 0) {
        args.flags |= CLONE_INTO_CGROUP;
        args.cgroup = (unsigned int)group_fd;
    }
    return syscall(SYS_clone3, &args, sizeof(args));
}

/* From before the first call until it is reaped, in nanoseconds; or -errno. */
static int64_t run_box(const struct floor *floor, enum step step)
{
    CR_AUTO_CLOSE int workspace_fd = -1;
    int64_t begin_ns = cr_clock_mono_ns();
    int status = 0;
    long pid;
    int r = 0;

    if (step >= STEP_MOUNTS)
        r = sbx_workspace_make(WORKSPACE_BYTES, WORKSPACE_INODES,
                               SBX_USERNS_DEFAULT_BASE + SBX_USERNS_PROGRAM_ID, &workspace_fd,
                               NULL);
    if (r < 0)
        return r;
    pid = clone_box(floor, step);
    if (pid == 0)
        be_box(floor, step, workspace_fd);
    if (pid < 0 || waitpid((pid_t)pid, &status, 0) != (pid_t)pid)
        return -errno;
    return status == 0 ? cr_clock_mono_ns() - begin_ns : -EPROTO;
}

static void answer_for_ever(int fd)
{
    char byte;

    while (recv(fd, &byte, 1, 0) == 1 && send(fd, &byte, 1, MSG_NOSIGNAL) == 1)
        ;
    _exit(0);
}

/* To somebody who waits, and back: one way is half of it. */
static int64_t wake(int fd)
{
    int64_t begin_ns = cr_clock_mono_ns();
    char byte = 0;

    if (send(fd, &byte, 1, MSG_NOSIGNAL) != 1 || recv(fd, &byte, 1, 0) != 1)
        return -EPIPE;
    return (cr_clock_mono_ns() - begin_ns) / 2;
}

struct series {
    struct bench_samples steps[STEP_COUNT];
    struct bench_samples sparse_box;
    struct bench_samples wake;
    struct bench_samples sparse_wake;
};

static int take(struct bench_samples *samples, int64_t ns, bool is_counted)
{
    if (ns < 0)
        return (int)ns;
    if (is_counted)
        bench_samples_add(samples, ns);
    return 0;
}

static int sample(const struct floor *floor, int wake_fd, struct series *series, bool is_counted)
{
    int r = take(&series->wake, wake(wake_fd), is_counted);

    for (size_t i = 0; r == 0 && i < STEP_COUNT; i++)
        r = take(&series->steps[i], run_box(floor, (enum step)i), is_counted);
    return r;
}

static int sample_sparse(const struct floor *floor, int wake_fd, struct series *series)
{
    int r;

    bench_wait_until(cr_clock_mono_ns() + BENCH_SPARSE_NS);
    r = take(&series->sparse_wake, wake(wake_fd), true);
    bench_wait_until(cr_clock_mono_ns() + BENCH_SPARSE_NS);
    return r < 0 ? r : take(&series->sparse_box, run_box(floor, STEP_COUNT - 1), true);
}

static int sample_all(const struct floor *floor, size_t samples, int wake_fd, struct series *series)
{
    const size_t sparse = samples < SPARSE_MOST ? samples : SPARSE_MOST;
    int r = 0;

    for (size_t i = 0; r == 0 && i < STEP_COUNT; i++)
        r = bench_samples_init(&series->steps[i], samples);
    if (r == 0)
        r = bench_samples_init(&series->sparse_box, sparse);
    if (r == 0)
        r = bench_samples_init(&series->wake, samples);
    if (r == 0)
        r = bench_samples_init(&series->sparse_wake, sparse);
    for (size_t i = 0; r == 0 && i < WARM_UP + samples; i++)
        r = sample(floor, wake_fd, series, i >= WARM_UP);
    for (size_t i = 0; r == 0 && i < sparse; i++)
        r = sample_sparse(floor, wake_fd, series);
    return r;
}

static void print_series(struct series *series)
{
    (void)printf("\"series\":{");
    for (size_t i = 0; i < STEP_COUNT; i++) {
        bench_samples_print(step_names[i], &series->steps[i]);
        (void)putchar(',');
    }
    bench_samples_print("whole, sparse", &series->sparse_box);
    (void)putchar(',');
    bench_samples_print("wake-up", &series->wake);
    (void)putchar(',');
    bench_samples_print("wake-up, sparse", &series->sparse_wake);
    (void)printf("}");
}

static int measure_series(const struct floor *floor, size_t samples)
{
    static struct series series; /* empty */
    int pair[2];
    pid_t pid;
    int r;

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return -errno;
    pid = fork();
    if (pid == 0) {
        (void)close(pair[0]);
        answer_for_ever(pair[1]);
    }
    (void)close(pair[1]);
    r = pid < 0 ? -errno : sample_all(floor, samples, pair[0], &series);
    (void)close(pair[0]);
    if (pid > 0)
        (void)waitpid(pid, NULL, 0);
    if (r == 0)
        print_series(&series);
    for (size_t i = 0; i < STEP_COUNT; i++)
        bench_samples_done(&series.steps[i]);
    bench_samples_done(&series.sparse_box);
    bench_samples_done(&series.wake);
    bench_samples_done(&series.sparse_wake);
    return r;
}

/* ---- as fast as it goes ---- */

static double cpu_seconds(void)
{
    struct rusage usage;

    if (getrusage(RUSAGE_CHILDREN, &usage) < 0)
        return 0;
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

_Noreturn static void work(const struct floor *floor, enum step step, int64_t end_ns,
                           uint64_t *ret_count)
{
    while (cr_clock_mono_ns() < end_ns) {
        if (run_box(floor, step) < 0)
            _exit(1);
        ++*ret_count;
    }
    _exit(0);
}

/* How many in a second, and the CPU time of each: their own, their parent's, and no more. */
static int measure_rate(const struct floor *floor, const char *name, enum step step, long seconds)
{
    const long cores = sysconf(_SC_NPROCESSORS_ONLN);
    const long workers = cores < 1 ? 1 : cores < WORKERS_MAX ? cores : WORKERS_MAX;
    const double cpu_before = cpu_seconds();
    const int64_t end_ns = cr_clock_mono_ns() + seconds * CR_NS_PER_S;
    uint64_t *counts = mmap(NULL, WORKERS_MAX * sizeof(*counts), PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    uint64_t sum = 0;
    bool is_good = counts != MAP_FAILED;

    for (long i = 0; is_good && i < workers; i++) {
        pid_t pid = fork();

        if (pid == 0)
            work(floor, step, end_ns, &counts[i]);
        is_good = pid > 0;
    }
    for (int status; waitpid(-1, &status, 0) > 0;)
        is_good = is_good && status == 0;
    for (long i = 0; is_good && i < workers; i++)
        sum += counts[i];
    if (sum == 0)
        return -EPROTO;
    (void)printf("\"%s\":{\"per_second\":%.1f,\"cpu_ms\":%.3f}", name,
                 (double)sum / (double)seconds, (cpu_seconds() - cpu_before) * 1e3 / (double)sum);
    return munmap(counts, WORKERS_MAX * sizeof(*counts)) < 0 ? -errno : 0;
}

static int measure(const struct floor *floor, long samples, long seconds)
{
    int r;

    (void)printf("{\"bench\":\"floor\",");
    r = measure_series(floor, (size_t)samples);
    (void)printf(",\"rates\":{");
    if (r == 0)
        r = measure_rate(floor, "exec", STEP_FORK, seconds);
    (void)putchar(',');
    if (r == 0)
        r = measure_rate(floor, "box", STEP_COUNT - 1, seconds);
    (void)printf("}}\n");
    return r;
}

int main(int argc, char **argv)
{
    static struct floor floor = {.net_fd = -1, .userns_fd = -1}; /* ends with the process */
    struct cr_err err = CR_ERR_INIT;
    const long samples = argc == 3 ? strtol(argv[1], NULL, 10) : 0;
    const long seconds = argc == 3 ? strtol(argv[2], NULL, 10) : 0;
    int r;

    cr_log_setup("floor_bench", CR_LOG_WARN, CR_LOG_TEXT);
    if (samples <= 0 || samples > 1000000 || seconds <= 0) {
        (void)fprintf(stderr, "usage: floor_bench SAMPLES SECONDS\n");
        return EXIT_FAILURE;
    }
    r = prepare(&floor, &err);
    if (r == 0)
        r = measure(&floor, samples, seconds);
    if (r < 0)
        cr_log_error("%s", err.code < 0 ? err.text : strerrordesc_np(-r));
    sbx_cgroup_close(&floor.group);
    if (floor.host.ops && sbx_sweep_own(&floor.host, &err) < 0)
        cr_log_error("%s", err.text);
    sbx_cgroup_host_close(&floor.host);
    return r == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
