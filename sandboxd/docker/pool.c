/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/docker/pool.h"

#include "common/auto.h"
#include "common/clock.h"
#include "common/err.h"
#include "common/log.h"
#include "common/patience.h"
#include "sandboxd/backend/job.h"
#include "sandboxd/docker/docker.h"
#include "sandboxd/docker/pool_parts.h"
#include "sandboxd/runtimes/table.h"
#include "sandboxd/template/kind.h"
#include "sandboxd/template/suit.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include <sys/epoll.h>

#define START_DEADLINE_NS (60 * CR_NS_PER_S)
#define AGE_NS (600 * CR_NS_PER_S) /* a box that waited so long makes place for a new one */

#define MEMORY_MARGIN_BYTES (UINT64_C(1) << 20) /* a run needs more than what waits already */

#define BIT(state) (1U << (state))

/* Slots of each kind when --pool does not say. */
static const uint32_t standard[SBX_DOCKER_KIND_COUNT] = {
    [SBX_TEMPLATE_PYTHON] = 1,
    [SBX_TEMPLATE_PYTEST] = 2, /* 25 MiB each; native has 4 */
    [SBX_TEMPLATE_PYTEST_SHALLOW] = 0,
    [SBX_DOCKER_KIND_PLAIN] = 2,
};

/* Bit sets of the states that may follow. */
static const uint32_t states[] = {
    [SBX_DOCKER_SLOT_FREE] = BIT(SBX_DOCKER_SLOT_STARTING),
    [SBX_DOCKER_SLOT_STARTING] =
        BIT(SBX_DOCKER_SLOT_LOADING) | BIT(SBX_DOCKER_SLOT_IDLE) | BIT(SBX_DOCKER_SLOT_FREE),
    [SBX_DOCKER_SLOT_LOADING] = BIT(SBX_DOCKER_SLOT_IDLE) | BIT(SBX_DOCKER_SLOT_FREE),
    [SBX_DOCKER_SLOT_IDLE] = BIT(SBX_DOCKER_SLOT_FREE),
};

_Static_assert(CR_ARRAY_SIZE(states) == SBX_DOCKER_SLOT_STATE_COUNT, "one row per state");

/* Which limits of a box that waits can become those of a run, and how. */
static const enum sbx_limit of_group[] = {SBX_LIMIT_MEMORY, SBX_LIMIT_PROCESSES,
                                          SBX_LIMIT_CPU_MILLICORES};

static const enum sbx_limit of_folders[] = {SBX_LIMIT_WORKSPACE_BYTES, SBX_LIMIT_WORKSPACE_INODES};

static const enum sbx_limit of_process[] = {SBX_LIMIT_STACK, SBX_LIMIT_FILE_SIZE,
                                            SBX_LIMIT_OPEN_FILES};

bool sbx_docker_slot_can_move(enum sbx_docker_slot_state from, enum sbx_docker_slot_state to)
{
    return from < SBX_DOCKER_SLOT_STATE_COUNT && to < SBX_DOCKER_SLOT_STATE_COUNT &&
           (states[from] & BIT(to)) != 0;
}

void sbx_docker_slot_move(struct sbx_docker *docker, struct sbx_docker_slot *slot,
                          enum sbx_docker_slot_state to, int64_t deadline_ns)
{
    assert(sbx_docker_slot_can_move(slot->state, to));
    docker->base.pool_ready -= slot->state == SBX_DOCKER_SLOT_IDLE;
    docker->base.pool_ready += to == SBX_DOCKER_SLOT_IDLE;
    slot->state = to;
    slot->deadline_ns = deadline_ns;
}

const char *sbx_docker_kind_name(uint32_t kind)
{
    return kind == SBX_DOCKER_KIND_PLAIN ? "plain" : sbx_template_name(kind);
}

static int add_slots(struct sbx_docker_pool *pool, uint32_t kind, uint32_t count,
                     struct cr_err *err)
{
    if (count > SBX_AHEAD_MAX - pool->slot_count)
        return cr_err_set(err, EINVAL, "--pool: more than %u slots in all", SBX_AHEAD_MAX);
    for (uint32_t i = 0; i < count; i++) {
        struct sbx_docker_slot *slot = &pool->slots[pool->slot_count];

        slot->kind = kind;
        slot->deadline_ns = INT64_MAX;
        sbx_docker_box_init(&slot->box, SBX_SLOTS_MAX + pool->slot_count, NULL);
        pool->slot_count++;
    }
    return 0;
}

int sbx_docker_pool_init(struct sbx_docker_pool *pool, const char *text, bool has_preload,
                         struct cr_err *err)
{
    const char *kinds[SBX_DOCKER_KIND_COUNT];
    uint32_t counts[SBX_DOCKER_KIND_COUNT];
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    int r;

    *pool = (struct sbx_docker_pool){.starting_most = cores > 0 ? (uint32_t)cores : 1};
    memcpy(counts, standard, sizeof(counts));
    for (uint32_t i = 0; i < SBX_DOCKER_KIND_COUNT; i++)
        kinds[i] = sbx_docker_kind_name(i);
    r = sbx_ahead_parse(text, kinds, SBX_DOCKER_KIND_COUNT, counts, err);
    /* What is there in no time comes first. */
    if (r == 0)
        r = add_slots(pool, SBX_DOCKER_KIND_PLAIN, counts[SBX_DOCKER_KIND_PLAIN], err);
    for (uint32_t i = 0; r == 0 && has_preload && i < SBX_DOCKER_KIND_PLAIN; i++)
        r = add_slots(pool, i, counts[i], err);
    return r;
}

void sbx_docker_pool_keep_plain(struct sbx_docker_pool *pool)
{
    while (pool->slot_count > 0 && pool->slots[pool->slot_count - 1].kind != SBX_DOCKER_KIND_PLAIN)
        pool->slot_count--;
}

/* ---- the life of a slot ---- */

static struct sbx_docker_slot *slot_of(struct sbx_docker *docker, const struct sbx_docker_box *box)
{
    return &docker->pool.slots[box->place - SBX_SLOTS_MAX];
}

void sbx_docker_slot_discard(struct sbx_docker *docker, struct sbx_docker_slot *slot)
{
    bool was_idle = slot->state == SBX_DOCKER_SLOT_IDLE;

    sbx_docker_box_drop(docker, &slot->box);
    sbx_docker_slot_move(docker, slot, SBX_DOCKER_SLOT_FREE, INT64_MAX);
    if (was_idle && !docker->base.is_stopping)
        sbx_ahead_tell_ready(&docker->base);
}

/* What can only be lowered later is the most that anybody may ask for; but the libc of an
 * interpreter reads the limit of its stack at its start. */
static struct sbx_limits limits_ahead(const struct sbx_docker *docker, uint32_t kind)
{
    struct sbx_limits limits = sbx_backend_usual_limits(&docker->base);

    for (size_t i = 0; i < CR_ARRAY_SIZE(of_process); i++) {
        if (of_process[i] != SBX_LIMIT_STACK || kind == SBX_DOCKER_KIND_PLAIN)
            limits.value[of_process[i]] = docker->base.link.maximum.value[of_process[i]];
    }
    return limits;
}

static void start(struct sbx_docker *docker, struct sbx_docker_slot *slot)
{
    const struct sbx_limits limits = limits_ahead(docker, slot->kind);

    sbx_docker_slot_move(docker, slot, SBX_DOCKER_SLOT_STARTING,
                         cr_clock_mono_ns() + cr_patience_ns(START_DEADLINE_NS));
    sbx_docker_box_begin(docker, &slot->box, docker->image, &limits);
}

void sbx_docker_pool_on_not_made(struct sbx_docker *docker, struct sbx_docker_box *box,
                                 const char *text)
{
    struct sbx_docker_slot *slot = slot_of(docker, box);

    if (!docker->base.is_stopping)
        cr_log_error("cannot fill the pool kind=%s error=\"%s\"", sbx_docker_kind_name(slot->kind),
                     text);
    docker->pool.retry_ns = cr_clock_mono_ns() + SBX_DOCKER_POOL_RETRY_NS;
    sbx_docker_slot_discard(docker, slot);
}

void sbx_docker_slot_become_idle(struct sbx_docker *docker, struct sbx_docker_slot *slot)
{
    struct cr_err err = CR_ERR_INIT;

    if (!docker->plan.is_inside && sbx_cgroup_usage(&slot->box.group, &slot->box.idle, &err) < 0) {
        sbx_docker_pool_on_not_made(docker, &slot->box, err.text);
        return;
    }
    if (sbx_docker_start_relay(docker, &slot->box, slot->kind != SBX_DOCKER_KIND_PLAIN,
                               &slot->box.relay, &err) < 0)
        cr_log_warn("a box of the pool waits without a relay error=\"%s\"", err.text);
    sbx_docker_slot_move(docker, slot, SBX_DOCKER_SLOT_IDLE, cr_clock_mono_ns() + AGE_NS);
    sbx_ahead_tell_ready(&docker->base);
}

static void on_end(struct sbx_docker *docker, struct sbx_docker_slot *slot)
{
    cr_log_warn("a box of the pool died, making another kind=%s container=%.12s",
                sbx_docker_kind_name(slot->kind), slot->box.container);
    sbx_docker_slot_discard(docker, slot);
}

/* ---- events ---- */

void sbx_docker_pool_on_made(struct sbx_docker *docker, struct sbx_docker_box *box)
{
    struct sbx_docker_slot *slot = slot_of(docker, box);
    uint32_t index = box->place - SBX_SLOTS_MAX;
    int r = sbx_backend_watch(&docker->base, box->attach_fd, EPOLLIN,
                              SBX_DOCKER_WATCH_POOL_ATTACH + index, NULL);

    if (r == 0 && box->pidfd >= 0)
        r = sbx_backend_watch(&docker->base, box->pidfd, EPOLLIN,
                              SBX_DOCKER_WATCH_POOL_DEAD + index, NULL);
    if (r < 0)
        sbx_docker_pool_on_not_made(docker, box, strerrordesc_np(-r));
    else if (slot->kind == SBX_DOCKER_KIND_PLAIN)
        sbx_docker_slot_become_idle(docker, slot);
    else
        sbx_docker_slot_load(docker, slot);
}

/* sandbox-init says nothing before it is asked: while the slot is idle this is the end of the
 * container, or of the engine. */
void sbx_docker_pool_on_attach(struct sbx_docker *docker, uint32_t index)
{
    struct sbx_docker_slot *slot = &docker->pool.slots[index];

    if (slot->state == SBX_DOCKER_SLOT_STARTING)
        sbx_docker_box_on_attach(docker, &slot->box);
    else if (slot->state == SBX_DOCKER_SLOT_LOADING)
        sbx_docker_slot_hear(docker, slot);
    else if (slot->state == SBX_DOCKER_SLOT_IDLE)
        on_end(docker, slot);
}

void sbx_docker_pool_on_dead(struct sbx_docker *docker, uint32_t index)
{
    struct sbx_docker_slot *slot = &docker->pool.slots[index];

    if (slot->state == SBX_DOCKER_SLOT_LOADING)
        sbx_docker_slot_give_up(docker, slot, "the container ended");
    else if (slot->state == SBX_DOCKER_SLOT_IDLE)
        on_end(docker, slot);
}

/* ---- handing out ---- */

static bool is_same(const struct sbx_limits *a, const struct sbx_limits *b,
                    const enum sbx_limit *which, size_t count)
{
    bool same = true;

    for (size_t i = 0; i < count; i++)
        same = same && a->value[which[i]] == b->value[which[i]];
    return same;
}

/* Groups of another host cannot be written from here. */
static bool fits(const struct sbx_docker *docker, const struct sbx_docker_slot *slot,
                 const struct sbx_limits *limits)
{
    const struct sbx_docker_box *box = &slot->box;

    if (!is_same(&box->limits, limits, of_folders, CR_ARRAY_SIZE(of_folders)))
        return false;
    if (slot->kind != SBX_DOCKER_KIND_PLAIN &&
        limits->value[SBX_LIMIT_MEMORY] < slot->idle_bytes + MEMORY_MARGIN_BYTES)
        return false;
    return !docker->plan.is_inside ||
           is_same(&box->limits, limits, of_group, CR_ARRAY_SIZE(of_group));
}

static int limit_group(const struct sbx_docker_box *box, const struct sbx_limits *limits,
                       struct cr_err *err)
{
    int r;

    if (is_same(&box->limits, limits, of_group, CR_ARRAY_SIZE(of_group)))
        return 0;
    r = sbx_cgroup_limit(&box->group, limits, err);
    return r < 0 ? r : sbx_cgroup_limit_cpu(&box->group, limits, err);
}

/* An idle box has nothing to say; its end has not been told yet. */
static bool is_dead(const struct sbx_docker_box *box)
{
    struct pollfd fds[] = {{.fd = box->attach_fd, .events = POLLIN | POLLRDHUP},
                           {.fd = box->pidfd, .events = POLLIN}};

    return poll(fds, CR_ARRAY_SIZE(fds), 0) != 0;
}

/* Gives the slot's box to the run. Returns false when it cannot be used. */
static bool hand_over(struct sbx_docker *docker, struct sbx_docker_slot *slot,
                      struct sbx_docker_run *run)
{
    struct cr_err err = CR_ERR_INIT;

    if (is_dead(&slot->box)) {
        on_end(docker, slot);
        return false;
    }
    if (limit_group(&slot->box, &run->job.limits, &err) < 0) {
        cr_log_warn("a box of the pool cannot be used, trying another run=%" PRIu64 " error=\"%s\"",
                    run->job.id, err.text);
        sbx_docker_slot_discard(docker, slot);
        return false;
    }
    if (slot->kind != SBX_DOCKER_KIND_PLAIN)
        run->job.start_mode = (uint8_t)sbx_template_start_mode(slot->kind);
    sbx_docker_box_move(docker, &slot->box, &run->box);
    sbx_docker_slot_move(docker, slot, SBX_DOCKER_SLOT_FREE, INT64_MAX);
    return true;
}

static bool take_of(struct sbx_docker *docker, struct sbx_docker_run *run, uint32_t kind)
{
    for (uint32_t i = 0; i < docker->pool.slot_count; i++) {
        struct sbx_docker_slot *slot = &docker->pool.slots[i];

        if (slot->kind == kind && slot->state == SBX_DOCKER_SLOT_IDLE &&
            fits(docker, slot, &run->job.limits) && hand_over(docker, slot, run))
            return true;
    }
    return false;
}

/* One that waits has no terminal, and serves one run. */
static bool may_have_interpreter(uint32_t kind, const struct sbx_job *job)
{
    return job->session == 0 && !(job->flags & SBX_RUN_HAS_TERMINAL) &&
           sbx_template_suits(kind, job);
}

/* The more special ones first. */
bool sbx_docker_pool_take(struct sbx_docker *docker, struct sbx_docker_run *run)
{
    if (sbx_docker_image_of(docker, run->job.runtime) != docker->image)
        return false;
    for (uint32_t kind = 0; kind < SBX_DOCKER_KIND_COUNT; kind++) {
        if ((kind == SBX_DOCKER_KIND_PLAIN || may_have_interpreter(kind, &run->job)) &&
            take_of(docker, run, kind))
            return true;
    }
    return false;
}

/* ---- time ---- */

static uint32_t count_in(const struct sbx_docker_pool *pool, enum sbx_docker_slot_state state)
{
    uint32_t found = 0;

    for (uint32_t i = 0; i < pool->slot_count; i++)
        found += pool->slots[i].state == state;
    return found;
}

static int64_t fill_ns(const struct sbx_docker *docker)
{
    int64_t quiet_ns = sbx_ahead_quiet_ns(&docker->base);

    return quiet_ns > docker->pool.retry_ns ? quiet_ns : docker->pool.retry_ns;
}

static bool may_start(const struct sbx_docker *docker)
{
    const struct sbx_docker_pool *pool = &docker->pool;

    return count_in(pool, SBX_DOCKER_SLOT_STARTING) + count_in(pool, SBX_DOCKER_SLOT_LOADING) <
               pool->starting_most &&
           !sbx_wreckage_is_full(&docker->wreckage);
}

/* When the slot, which is free, may be filled; that may have passed. */
static int64_t fill_slot_ns(const struct sbx_docker *docker, const struct sbx_docker_slot *slot)
{
    int64_t any_ns = fill_ns(docker);
    int64_t kind_ns = docker->pool.kind_retry_ns[slot->kind];

    return any_ns > kind_ns ? any_ns : kind_ns;
}

/* A container that may be there before the answer says so is waited for: else nobody knows it. */
static bool is_due(const struct sbx_docker *docker, const struct sbx_docker_slot *slot,
                   int64_t now_ns)
{
    if (slot->state == SBX_DOCKER_SLOT_FREE)
        return false;
    if (slot->box.step == SBX_DOCKER_CREATING && !docker->is_engine_lost)
        return false;
    return slot->deadline_ns <= now_ns || docker->base.is_stopping;
}

void sbx_docker_pool_on_time(struct sbx_docker *docker, int64_t now_ns)
{
    struct sbx_docker_pool *pool = &docker->pool;

    for (uint32_t i = 0; i < pool->slot_count; i++) {
        struct sbx_docker_slot *slot = &pool->slots[i];

        if (!is_due(docker, slot, now_ns))
            continue;
        if (slot->state == SBX_DOCKER_SLOT_LOADING && !docker->base.is_stopping)
            sbx_docker_slot_give_up(docker, slot, "it is not there in time");
        else
            sbx_docker_slot_discard(docker, slot);
    }
    if (docker->base.is_stopping || now_ns < fill_ns(docker))
        return;
    for (uint32_t i = 0; i < pool->slot_count && may_start(docker); i++) {
        struct sbx_docker_slot *slot = &pool->slots[i];

        /* Asked again for each: one that could not be started puts the others off. */
        if (slot->state == SBX_DOCKER_SLOT_FREE && now_ns >= fill_slot_ns(docker, slot))
            start(docker, slot);
    }
}

int64_t sbx_docker_pool_next_ns(const struct sbx_docker *docker)
{
    const struct sbx_docker_pool *pool = &docker->pool;
    int64_t now_ns = cr_clock_mono_ns();
    int64_t next = INT64_MAX;

    for (uint32_t i = 0; i < pool->slot_count; i++) {
        const struct sbx_docker_slot *slot = &pool->slots[i];
        int64_t wanted_ns = fill_slot_ns(docker, slot);

        if (slot->state != SBX_DOCKER_SLOT_FREE && slot->box.step != SBX_DOCKER_CREATING &&
            slot->deadline_ns < next)
            next = slot->deadline_ns;
        /* One that may be filled already waits for others that are starting. */
        if (slot->state == SBX_DOCKER_SLOT_FREE && wanted_ns > now_ns && wanted_ns < next)
            next = wanted_ns;
    }
    return next;
}

bool sbx_docker_pool_is_empty(const struct sbx_docker_pool *pool)
{
    return count_in(pool, SBX_DOCKER_SLOT_FREE) == pool->slot_count;
}
