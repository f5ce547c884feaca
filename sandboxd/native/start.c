/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/clock.h"
#include "common/err.h"
#include "common/log.h"
#include "sandboxd/backend/process.h"
#include "sandboxd/native/native.h"
#include "sandboxd/native/needs.h"
#include "sandboxd/native/sweep.h"
#include "sandboxd/native/weaken.h"
#include "sandboxd/runtimes/table.h"

#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include <sys/epoll.h>
#include <sys/resource.h>

#define OWN_NICE (-5)
#define OWN_OOM_SCORE "-500"

#define BACKEND_NATIVE 1 /* crisol.sandbox.v1.Backend */

/* Programs must never be in front of us when the machine is short of CPU or memory. */
static void take_priority(void)
{
    CR_AUTO_CLOSE int fd = openat(AT_FDCWD, "/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

    /* Best effort: containers often lack CAP_SYS_RESOURCE and CAP_SYS_NICE. */
    if (fd < 0 || write(fd, OWN_OOM_SCORE, strlen(OWN_OOM_SCORE)) < 0)
        cr_log_debug("cannot lower our own oom_score_adj, going on");
    if (setpriority(PRIO_PROCESS, 0, OWN_NICE) < 0)
        cr_log_debug("cannot raise our own priority, going on");
}

/* A run holds about a dozen fds and a group made ahead four: the soft limit may be too low. */
static void raise_open_files(void)
{
    struct rlimit files;

    if (getrlimit(RLIMIT_NOFILE, &files) < 0)
        return;
    files.rlim_cur = files.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &files); /* up to the hard limit always works */
}

static void set_maxima(const struct sbx_native_settings *settings, struct sbx_limits *maximum)
{
    struct rlimit files;

    *maximum = sbx_maximum_limits;
    for (int i = 0; i < SBX_LIMIT_COUNT; i++) {
        if (settings->maximum[i] > 0)
            maximum->value[i] = settings->maximum[i];
    }
    /* Without CAP_SYS_RESOURCE our own hard limit is the most that a program can get. */
    if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_max > 0 &&
        maximum->value[SBX_LIMIT_OPEN_FILES] > files.rlim_max)
        maximum->value[SBX_LIMIT_OPEN_FILES] = files.rlim_max;
}

static int open_loop(struct sbx_native *native, struct cr_err *err)
{
    int r;

    native->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (native->epoll_fd < 0)
        return cr_err_sys(err, errno, "open epoll");
    r = sbx_native_watch(native, native->link.fd, EPOLLIN, SBX_WATCH_FRONT, NULL);
    if (r == 0)
        r = sbx_native_watch(native, native->lifeline_fd, EPOLLIN, SBX_WATCH_LIFELINE, NULL);
    if (r == 0)
        r = sbx_native_watch(native, native->keeper.fd, EPOLLIN, SBX_WATCH_KEEPER, NULL);
    return r < 0 ? cr_err_sys(err, -r, "watch the sockets") : 0;
}

static void send_hello(struct sbx_native *native)
{
    size_t runtime_count;
    union sbx_msg msg;

    (void)sbx_runtimes(&runtime_count);
    sbx_msg_init(&msg, SBX_MSG_HELLO, 0);
    msg.hello.backend = BACKEND_NATIVE;
    msg.hello.slots = native->slot_count;
    msg.hello.runtime_count = (uint32_t)runtime_count;
    native->link.cgroup_version = native->cgroups.ops->version;
    msg.hello.cgroup_version = native->link.cgroup_version;
    msg.hello.runtime_digest = sbx_runtimes_digest();
    msg.hello.maximum = native->link.maximum;
    memcpy(msg.hello.controls, native->controls, sizeof(msg.hello.controls));
    sbx_native_send(native, &msg);
}

void sbx_native_init(const struct sbx_native_settings *settings, struct sbx_native *native)
{
    *native = (struct sbx_native){
        .epoll_fd = -1,
        .link = {.fd = -1, .ops = &sbx_native_link_ops, .user = native},
        .lifeline_fd = -1,
        .init_fd = -1,
        .seccomp_fd = -1,
        .uid_base = (uint32_t)settings->uid_base,
        .keeper = SBX_KEEPER_INIT,
        .weakened = SBX_WEAKEN_NOTHING,
    };
    for (int i = 0; i < SBX_CONTROLLER_COUNT; i++) {
        native->cgroups.own_fds[i] = -1;
        native->cgroups.base_fds[i] = -1;
    }
}

/* The keeper comes behind the root file system: so it sees nothing of the host's files either. */
static int prepare(const struct sbx_native_settings *settings, struct sbx_native *native,
                   struct cr_err *err)
{
    int r = sbx_needs_meet(settings, native, err);

    if (r == 0)
        r = sbx_keeper_start(&native->cgroups, &native->keeper, err);
    return r == 0 ? sbx_groups_start(native, err) : r;
}

int sbx_native_start(const struct sbx_native_settings *settings, struct sbx_native *native,
                     struct cr_err *err)
{
    int r;

    sbx_native_init(settings, native);
    r = sbx_weaken_parse(settings, &native->weakened, err);
    if (r == 0)
        r = sbx_process_take_fds("sandboxd-native", &native->link.fd, &native->lifeline_fd, err);
    if (r == 0)
        r = sbx_process_block_signals(err);
    if (r < 0)
        return r;
    take_priority();
    raise_open_files();
    set_maxima(settings, &native->link.maximum);
    r = prepare(settings, native, err);
    if (r == 0)
        r = open_loop(native, err);
    if (r < 0)
        return r;
    send_hello(native);
    cr_log_info("ready slots=%" PRIu32 " cgroup_version=%" PRIu32, native->slot_count,
                native->cgroups.ops->version);
    return 0;
}

void sbx_native_stop(struct sbx_native *native)
{
    struct cr_err err = CR_ERR_INIT;

    for (uint32_t i = 0; i < native->slot_count; i++)
        cr_close_fd(&native->runs[i].userns_fd);
    sbx_groups_close(&native->groups);
    if (native->keeper.pid >= 0 && sbx_keeper_stop(&native->keeper, &err) < 0)
        cr_log_error("%s", err.text);
    /* For a start that failed before the keeper, or a keeper that was killed. */
    if (sbx_sweep_own(&native->cgroups, &err) < 0)
        cr_log_error("%s", err.text);
    sbx_cgroup_host_close(&native->cgroups);
    cr_close_fd(&native->seccomp_fd);
    cr_close_fd(&native->init_fd);
    cr_close_fd(&native->epoll_fd);
    cr_close_fd(&native->link.fd);
    cr_close_fd(&native->lifeline_fd);
}
