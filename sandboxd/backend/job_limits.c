/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/patience.h"
#include "sandboxd/backend/backend.h"
#include "sandboxd/backend/job.h"
#include "sandboxd/backend/job_parts.h"
#include "sandboxd/backend/weaken.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

/* What a run may use up, and the clocks by which that is looked at. */

#define POLL_MIN_NS (2 * CR_NS_PER_MS)
#define OOM_POLL_NS (2 * CR_NS_PER_MS)
#define OOM_WATCH_NS (500 * CR_NS_PER_MS)

/*
 * When to look at the counters next: not before the program can have used up
 * its CPU time, and then often. Where nobody else counts, often at all times.
 */
static int64_t next_poll_ns(const struct sbx_job *job, int64_t now_ns, uint64_t used_us)
{
    uint64_t limit_us = job->limits.value[SBX_LIMIT_CPU_TIME] * 1000;
    uint64_t left_us = limit_us > used_us ? limit_us - used_us : 0;
    int64_t wait_ns =
        (int64_t)(left_us * 1000 / job->limits.value[SBX_LIMIT_CPU_MILLICORES]) * CR_NS_PER_US;
    int64_t look_ns = job->group.host->ops->look_ns;

    if (look_ns > 0)
        return now_ns + look_ns;
    return now_ns + (wait_ns > POLL_MIN_NS ? wait_ns : POLL_MIN_NS);
}

void sbx_job_start_clocks(const struct sbx_backend *backend, struct sbx_job *job, int64_t go_ns)
{
    job->go_ns = go_ns;
    sbx_job_move(job, SBX_JOB_RUNNING,
                 go_ns + (int64_t)job->limits.value[SBX_LIMIT_WALL_TIME] * CR_NS_PER_MS);
    job->poll_ns = next_poll_ns(job, go_ns, 0);
    if (backend->ops->on_old) {
        job->age_wait_ns = SBX_JOB_YOUNG_CPU_US * CR_NS_PER_US;
        job->age_ns = go_ns + job->age_wait_ns;
    }
    if (sbx_is_weakened(backend, SBX_CONTROL_WALL_TIME))
        job->deadline_ns = INT64_MAX;
    if (sbx_is_weakened(backend, SBX_CONTROL_CPU_TIME))
        job->poll_ns = INT64_MAX;
}

void sbx_job_check_memory(struct sbx_job *job)
{
    uint64_t oom_kills = 0;

    if (sbx_cgroup_oom_kills(&job->group, &oom_kills) == 0 && oom_kills > job->baseline.oom_kills)
        sbx_facts_add(&job->facts, SBX_VERDICT_MEMORY_LIMIT, 0);
}

void sbx_job_check_limits(struct sbx_backend *backend, struct sbx_job *job, int64_t now_ns)
{
    uint64_t cpu_us = 0;

    sbx_job_check_memory(job);
    if (now_ns >= job->poll_ns && sbx_cgroup_cpu_us(&job->group, &cpu_us) == 0) {
        cpu_us -= job->baseline.cpu_total_us;
        if (cpu_us >= job->limits.value[SBX_LIMIT_CPU_TIME] * 1000)
            sbx_facts_add(&job->facts, SBX_VERDICT_CPU_TIME_LIMIT, cpu_us / 1000);
        job->poll_ns = next_poll_ns(job, now_ns, cpu_us);
    }
    if (now_ns >= job->deadline_ns)
        sbx_facts_add(&job->facts, SBX_VERDICT_WALL_TIME_LIMIT,
                      (uint64_t)((now_ns - job->go_ns) / CR_NS_PER_MS));
    if (job->facts.event_count > 0)
        sbx_job_kill(backend, job, now_ns);
}

/* Each look comes twice as late as the one before: most programs that run for long only wait. */
static void check_age(struct sbx_backend *backend, struct sbx_job *job, int64_t now_ns)
{
    uint64_t cpu_us = 0;

    if (now_ns < job->age_ns)
        return;
    if (sbx_cgroup_cpu_us(&job->group, &cpu_us) == 0 &&
        cpu_us - job->baseline.cpu_total_us < SBX_JOB_YOUNG_CPU_US) {
        job->age_wait_ns *= 2;
        job->age_ns = now_ns + job->age_wait_ns;
        return;
    }
    job->age_ns = INT64_MAX;
    backend->ops->on_old(backend, job);
}

void sbx_job_on_oom(struct sbx_backend *backend, struct sbx_job *job)
{
    int64_t now_ns = cr_clock_mono_ns();
    int r = sbx_cgroup_hear(&job->group);

    /* A group that somebody else removes with its box reads no more. */
    if (r < 0)
        cr_log_debug("cannot read an OOM event run=%" PRIu64 " error=%s", job->id,
                     strerrordesc_np(-r));
    if (job->state != SBX_JOB_RUNNING)
        return; /* the counters at the end tell */
    sbx_job_check_limits(backend, job, now_ns);
    /* v1 tells before the victim is chosen. */
    if (job->state == SBX_JOB_RUNNING) {
        job->oom_until_ns = now_ns + OOM_WATCH_NS;
        job->oom_poll_ns = now_ns + OOM_POLL_NS;
    }
}

/* ---- time ---- */

void sbx_job_on_time(struct sbx_backend *backend, struct sbx_job *job, int64_t now_ns)
{
    switch (job->state) {
    case SBX_JOB_STARTING:
        backend->ops->on_start_time(backend, job);
        break;
    case SBX_JOB_PREPARING:
        cr_log_error("sandbox-init is not ready in time run=%" PRIu64, job->id);
        sbx_job_fail(backend, job, SBX_STAGE_INIT, ETIMEDOUT);
        break;
    case SBX_JOB_RUNNING:
        sbx_job_check_limits(backend, job, now_ns);
        check_age(backend, job, now_ns);
        job->oom_poll_ns = now_ns + OOM_POLL_NS;
        if (job->oom_until_ns <= now_ns)
            job->oom_until_ns = 0;
        break;
    case SBX_JOB_KILLING:
        job->deadline_ns = now_ns + cr_patience_ns(SBX_JOB_KILL_DEADLINE_NS);
        backend->ops->on_kill_time(backend, job);
        break;
    case SBX_JOB_DRAINING:
        sbx_job_on_drain_time(backend, job, now_ns);
        break;
    case SBX_JOB_FREE:
    case SBX_JOB_STATE_COUNT:
        break;
    }
}

int64_t sbx_job_next_ns(const struct sbx_job *job)
{
    int64_t next = job->deadline_ns;

    if (job->state == SBX_JOB_FREE)
        return INT64_MAX;
    if (job->poll_ns < next)
        next = job->poll_ns;
    if (job->age_ns < next)
        next = job->age_ns;
    if (job->oom_until_ns > 0 && job->oom_poll_ns < next)
        next = job->oom_poll_ns;
    return next;
}
