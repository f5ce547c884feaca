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

static void on_event(struct sbx_backend *backend, struct sbx_job *job, uint32_t kind)
{
    if (kind == SBX_NATIVE_WATCH_KEEPER)
        on_keeper(sbx_native_of(backend));
    else
        sbx_run_on_dead(sbx_native_of(backend), (struct sbx_run *)job);
}

const struct sbx_backend_ops sbx_native_ops = {
    .stuck = "a box does not die; leaving it to the keeper",
    .start = sbx_run_start,
    .on_start_time = sbx_run_on_start_time,
    .on_start_cancelled = sbx_run_on_start_cancelled,
    .before_go = sbx_run_before_go,
    .kill = sbx_run_kill,
    .on_kill_time = sbx_run_on_kill_time,
    .measure = sbx_run_measure,
    .open_folder = sbx_run_open_folder,
    .release = sbx_run_release,
    .on_event = on_event,
};
