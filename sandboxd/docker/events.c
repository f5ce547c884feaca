/* SPDX-License-Identifier: Apache-2.0 */
#include "common/log.h"
#include "sandboxd/docker/docker.h"
#include "sandboxd/docker/engine.h"

#include <errno.h>

void sbx_docker_lose_engine(struct sbx_docker *docker, const char *text)
{
    if (docker->is_engine_lost)
        return;
    cr_log_error("%s; every run is lost, starting anew", text);
    docker->is_engine_lost = true;
    sbx_backend_begin_stop(&docker->base, "the docker engine is gone");
    /* Those that waited for an answer when we began to stop earlier. */
    sbx_backend_abandon_all(&docker->base);
}

static int admit(struct sbx_backend *backend, const struct sbx_msg_run *msg)
{
    (void)msg;
    return sbx_wreckage_is_full(&sbx_docker_of(backend)->wreckage) ? EBUSY : 0;
}

static void on_pool_event(struct sbx_docker *docker, uint32_t kind)
{
    if (kind >= SBX_DOCKER_WATCH_POOL_DEAD)
        sbx_docker_pool_on_dead(docker, kind - SBX_DOCKER_WATCH_POOL_DEAD);
    else
        sbx_docker_pool_on_attach(docker, kind - SBX_DOCKER_WATCH_POOL_ATTACH);
}

static void on_event(struct sbx_backend *backend, struct sbx_job *job, uint32_t kind)
{
    struct sbx_docker *docker = sbx_docker_of(backend);

    switch (kind) {
    case SBX_DOCKER_WATCH_ENGINE:
        sbx_engine_run(docker->engine);
        break;
    case SBX_DOCKER_WATCH_ATTACH:
        sbx_docker_box_on_attach(docker, &sbx_docker_run_of(job)->box);
        break;
    case SBX_DOCKER_WATCH_RELAY:
        sbx_docker_run_on_relay(docker, sbx_docker_run_of(job));
        break;
    case SBX_DOCKER_WATCH_BOX:
        sbx_docker_run_on_box(docker, sbx_docker_run_of(job));
        break;
    case SBX_DOCKER_WATCH_SESSION:
        sbx_docker_session_on_event(docker);
        break;
    default:
        on_pool_event(docker, kind);
        break;
    }
}

static int64_t next_ns(struct sbx_backend *backend)
{
    const struct sbx_docker *docker = sbx_docker_of(backend);
    int64_t engine_ns = sbx_engine_next_ns(docker->engine);
    int64_t next = sbx_wreckage_next_ns(&docker->wreckage);
    int64_t pool_ns = sbx_docker_pool_next_ns(docker);

    next = pool_ns < next ? pool_ns : next;
    for (uint32_t i = 0; i < backend->slot_count; i++) {
        if (docker->runs[i].answer_ns < next)
            next = docker->runs[i].answer_ns;
    }
    return engine_ns < next ? engine_ns : next;
}

static void on_time(struct sbx_backend *backend, int64_t now_ns)
{
    struct sbx_docker *docker = sbx_docker_of(backend);

    if (sbx_engine_next_ns(docker->engine) <= now_ns)
        sbx_engine_run(docker->engine);
    for (uint32_t i = 0; i < backend->slot_count; i++) {
        if (docker->runs[i].answer_ns <= now_ns)
            sbx_docker_inside_on_time(docker, &docker->runs[i]);
    }
    sbx_docker_pool_on_time(docker, now_ns);
    sbx_wreckage_on_time(docker, now_ns);
}

static bool is_idle(struct sbx_backend *backend)
{
    const struct sbx_docker *docker = sbx_docker_of(backend);

    return docker->is_engine_lost || (sbx_docker_pool_is_empty(&docker->pool) &&
                                      docker->wreckage.count == docker->wreckage.quarantined);
}

static void count(struct sbx_backend *backend)
{
    backend->counts[SBX_COUNT_QUARANTINED] = sbx_docker_of(backend)->wreckage.quarantined;
}

const struct sbx_backend_ops sbx_docker_ops = {
    .stuck = "containers do not go away; leaving them to the next start",
    .admit = admit,
    .make_session = sbx_docker_session_make,
    .drop_session = sbx_docker_session_drop,
    .check_session = sbx_docker_session_check,
    .park = sbx_docker_run_park,
    .start = sbx_docker_run_start,
    .on_start_time = sbx_docker_run_on_start_time,
    .on_start_cancelled = sbx_docker_run_on_start_cancelled,
    .on_own_message = sbx_docker_run_on_own_message,
    .before_go = sbx_docker_run_before_go,
    .kill = sbx_docker_run_kill,
    .is_alone = sbx_docker_run_is_alone,
    .on_kill_time = sbx_docker_run_on_kill_time,
    .measure = sbx_docker_run_measure,
    .open_folder = sbx_docker_run_open_folder,
    .take_collector = sbx_docker_inside_take_collector,
    .get_places = sbx_docker_run_get_places,
    .release = sbx_docker_run_release,
    .on_event = on_event,
    .next_ns = next_ns,
    .on_time = on_time,
    .is_idle = is_idle,
    .count = count,
};
