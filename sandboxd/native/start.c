/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/clock.h"
#include "common/err.h"
#include "common/log.h"
#include "common/slice.h"
#include "sandboxd/native/host.h"
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
    cr_slice_set(CR_SLICE_SHORT_NS); /* sandbox-init has it from us, programs do not */
}

/* The soft limit may be too low; see sbx_host_files(). */
static void raise_open_files(void)
{
    struct rlimit files;

    if (getrlimit(RLIMIT_NOFILE, &files) < 0)
        return;
    files.rlim_cur = files.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &files); /* up to the hard limit always works */
}

/* Without CAP_SYS_RESOURCE our own hard limit is the most that a program can get. */
static void set_maxima(const struct sbx_native_settings *settings, struct sbx_backend *base)
{
    uint64_t *most = &base->link.maximum.value[SBX_LIMIT_OPEN_FILES];
    struct rlimit files;

    sbx_backend_set_maxima(base, settings->maximum);
    if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_max > 0 && *most > files.rlim_max)
        *most = files.rlim_max;
}

static int open_loop(struct sbx_native *native, struct cr_err *err)
{
    int r = sbx_backend_open_loop(&native->base, err);

    if (r < 0)
        return r;
    r = sbx_backend_watch(&native->base, native->keeper.fd, EPOLLIN, SBX_NATIVE_WATCH_KEEPER, NULL);
    return r < 0 ? cr_err_sys(err, -r, "watch the keeper") : sbx_groups_watch_spawner(native, err);
}

void sbx_native_init(const struct sbx_native_settings *settings, struct sbx_native *native)
{
    *native = (struct sbx_native){
        .init_fd = -1,
        .seccomp_fd = -1,
        .uid_base = (uint32_t)settings->uid_base,
        .is_rootless = settings->is_rootless,
        .own_ids = settings->is_rootless ? sbx_host_own_ids() : 0,
        .keeper = SBX_KEEPER_INIT,
        .spawner = SBX_SPAWNER_INIT,
        .vault = SBX_VAULT_INIT,
    };
    sbx_templates_init(&native->templates, settings->preload);
    /* It needs whole ranges of ids. */
    if (settings->is_rootless)
        native->templates.is_on = false;
    sbx_roots_init(&native->roots);
    sbx_backend_init(&native->base, &sbx_native_ops);
    native->base.features = SBX_FEATURES;
    native->base.sessions.life_ms = (uint32_t)settings->session_life_ms;
    /* Without a time to live there is none. */
    for (uint32_t i = 0; i < settings->sessions && settings->session_life_ms > 0; i++)
        sbx_sessions_add(&native->base, &native->sessions[i].base);
    for (uint32_t i = 0; i < SBX_PLACES_MAX; i++)
        native->places[i].userns_fd = -1;
}

/* The keeper comes behind the root file system: so it sees nothing of the host's files either. */
static int prepare(const struct sbx_native_settings *settings, struct sbx_native *native,
                   struct cr_err *err)
{
    int r = sbx_needs_meet(settings, native, err);

    if (r == 0 && native->base.sessions.most > 0)
        r = sbx_vault_open(&native->vault, err);
    if (r == 0)
        r = sbx_keeper_start(&native->base.cgroups, &native->keeper, err);
    return r == 0 ? sbx_groups_start(native, err) : r;
}

/* Those that have what they need in the root file system of their boxes; the common one is this
 * process's own by now. */
static uint32_t runtimes_here(const struct sbx_roots *roots)
{
    size_t count;
    const struct sbx_runtime *runtimes = sbx_runtimes(&count);
    uint32_t found = roots->found;

    for (size_t i = 0; i < count; i++) {
        if (runtimes[i].rootfs == SBX_ROOTFS_HOST && !runtimes[i].root[0] &&
            sbx_roots_is_here(&runtimes[i]))
            found |= UINT32_C(1) << i;
    }
    return found;
}

/* What is loaded into a template is built for the host's interpreter, and the self-test leaves out
 * a control of boxes that are made from nothing. */
static bool may_preload(const struct sbx_native_settings *settings)
{
    return !(settings->rootfs && *settings->rootfs) && !settings->weaken.control;
}

/* Templates of callers are not there before their callers are. */
static bool has_templates_ahead(const struct sbx_native_settings *settings)
{
    return settings->preload && strcmp(settings->preload, "on") == 0 && may_preload(settings);
}

int sbx_native_size_pool(const struct sbx_native_settings *settings, struct sbx_pool *ret_pool,
                         struct cr_err *err)
{
    return sbx_pool_init(ret_pool, settings->is_rootless ? "0" : settings->pool,
                         has_templates_ahead(settings), err);
}

int sbx_native_start(const struct sbx_native_settings *settings, struct sbx_native *native,
                     struct cr_err *err)
{
    int r;

    sbx_native_init(settings, native);
    r = sbx_weaken_parse(&settings->weaken, &native->base.weakened, err);
    native->templates.is_on = native->templates.is_on && may_preload(settings);
    if (r == 0)
        r = sbx_native_may_weaken(native->base.weakened, err);
    if (r == 0)
        r = sbx_native_size_pool(settings, &native->pool, err);
    native->base.pool_slots = native->pool.slot_count;
    if (r == 0)
        r = sbx_backend_take_fds(&native->base, "sandboxd-native", settings->with_runtimes, err);
    if (r < 0)
        return r;
    take_priority();
    raise_open_files();
    set_maxima(settings, &native->base);
    r = prepare(settings, native, err);
    if (r == 0)
        r = open_loop(native, err);
    if (r < 0)
        return r;
    native->base.runtimes = runtimes_here(&native->roots);
    native->base.is_image_root = settings->rootfs && *settings->rootfs;
    sbx_templates_start(native);
    sbx_backend_say_hello(&native->base, BACKEND_NATIVE);
    cr_log_info("ready slots=%" PRIu32 " pool=%" PRIu32 " cgroup_version=%" PRIu32,
                native->base.slot_count, native->pool.slot_count,
                native->base.cgroups.ops->version);
    return 0;
}

void sbx_native_stop(struct sbx_native *native)
{
    struct cr_err err = CR_ERR_INIT;

    for (uint32_t i = 0; i < native->place_count; i++)
        cr_close_fd(&native->places[i].userns_fd);
    sbx_templates_stop(&native->templates);
    sbx_groups_close(&native->groups);
    if (native->keeper.pid >= 0 && sbx_keeper_stop(&native->keeper, &err) < 0)
        cr_log_error("%s", err.text);
    /* For a start that failed before the keeper, or a keeper that was killed. */
    if (sbx_sweep_own(&native->base.cgroups, &err) < 0)
        cr_log_error("%s", err.text);
    sbx_roots_close(&native->roots);
    sbx_vault_close(&native->vault);
    sbx_spawner_stop(&native->spawner);
    cr_close_fd(&native->seccomp_fd);
    cr_close_fd(&native->init_fd);
    sbx_backend_close(&native->base);
}
