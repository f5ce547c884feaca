/* SPDX-License-Identifier: Apache-2.0 */
#include "common/log.h"
#include "sandboxd/native/native.h"

#include <sys/epoll.h>

static void on_keeper(struct sbx_native *native)
{
    if (sbx_groups_on_keeper(native) == 0)
        return;
    cr_log_error("the keeper is gone");
    (void)epoll_ctl(native->base.epoll_fd, EPOLL_CTL_DEL, native->keeper.fd, NULL);
    sbx_backend_begin_stop(&native->base, "the keeper is gone");
}

/*
 * It says nothing unasked, so this is its end. Boxes that are there go on, and
 * whoever needs another one starts another spawner.
 */
static void on_spawner(struct sbx_native *native)
{
    if (!sbx_spawner_is_gone(&native->spawner))
        return; /* the event was of one that has been replaced since */
    sbx_groups_stop_spawner(native);
    cr_log_warn("the spawner is gone, the next box starts another");
}

static void on_event(struct sbx_backend *backend, struct sbx_job *job, uint32_t kind)
{
    struct sbx_native *native = sbx_native_of(backend);

    if (kind == SBX_NATIVE_WATCH_KEEPER)
        on_keeper(native);
    else if (kind == SBX_NATIVE_WATCH_SPAWNER)
        on_spawner(native);
    else if (kind == SBX_NATIVE_WATCH_DEAD)
        sbx_run_on_dead(native, (struct sbx_run *)job);
    else if (kind == SBX_NATIVE_WATCH_ENDED)
        sbx_ending_on_event(native);
    else if (kind == SBX_NATIVE_WATCH_SESSION)
        sbx_native_session_on_event(native);
    else if (kind >= SBX_NATIVE_WATCH_TEMPLATE)
        sbx_templates_on_event(native, kind - SBX_NATIVE_WATCH_TEMPLATE);
    else if (kind < SBX_NATIVE_WATCH_POOL_DEAD)
        sbx_pool_on_control(native, kind - SBX_NATIVE_WATCH_POOL_CONTROL);
    else
        sbx_pool_on_dead(native, kind - SBX_NATIVE_WATCH_POOL_DEAD);
}

static int64_t next_ns(struct sbx_backend *backend)
{
    const struct sbx_native *native = sbx_native_of(backend);
    int64_t pool_ns = sbx_pool_next_ns(native);
    int64_t template_ns = sbx_templates_next_ns(native);

    if (native->groups.has_news)
        return 0;
    return pool_ns < template_ns ? pool_ns : template_ns;
}

static void on_time(struct sbx_backend *backend, int64_t now_ns)
{
    sbx_groups_on_time(sbx_native_of(backend));
    sbx_templates_on_time(sbx_native_of(backend), now_ns);
    sbx_pool_on_time(sbx_native_of(backend), now_ns);
}

static bool is_idle(struct sbx_backend *backend)
{
    const struct sbx_native *native = sbx_native_of(backend);

    return sbx_pool_is_empty(&native->pool) && native->ending.count == 0;
}

static void count(struct sbx_backend *backend)
{
    sbx_templates_count(sbx_native_of(backend));
}

const struct sbx_backend_ops sbx_native_ops = {
    .stuck = "a box does not die; leaving it to the keeper",
    .make_session = sbx_native_session_make,
    .drop_session = sbx_native_session_drop,
    .check_session = sbx_native_session_check,
    .park = sbx_run_park,
    .start = sbx_run_start,
    .on_start_time = sbx_run_on_start_time,
    .on_start_cancelled = sbx_run_on_start_cancelled,
    .on_own_message = sbx_run_on_own_message,
    .before_go = sbx_run_before_go,
    .on_old = sbx_run_on_old,
    .is_alone = sbx_run_is_alone,
    .kill = sbx_run_kill,
    .on_kill_time = sbx_run_on_kill_time,
    .measure = sbx_run_measure,
    .open_folder = sbx_run_open_folder,
    .get_places = sbx_run_get_places,
    .release = sbx_run_release,
    .on_event = on_event,
    .next_ns = next_ns,
    .on_time = on_time,
    .is_idle = is_idle,
    .count = count,
};
