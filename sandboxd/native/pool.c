/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/native/pool.h"

#include "common/auto.h"
#include "common/clock.h"
#include "common/err.h"
#include "common/log.h"
#include "common/patience.h"
#include "sandboxd/backend/ahead.h"
#include "sandboxd/backend/job.h"
#include "sandboxd/native/native.h"
#include "sandboxd/runtimes/table.h"
#include "sandboxd/wire/boxctl.h"
#include "sandboxd/wire/fds.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include <sys/epoll.h>
#include <sys/socket.h>

#define START_DEADLINE_NS (15 * CR_NS_PER_S)
#define RETRY_NS CR_NS_PER_S
#define AGE_NS (300 * CR_NS_PER_S) /* a box that waited so long makes place for a new one */

#define BIT(state) (1U << (state))

static const struct {
    const char *name;
    uint32_t next; /* bit set of the states that may follow */
} states[] = {
    [SBX_POOL_FREE] = {"free", BIT(SBX_POOL_STARTING)},
    [SBX_POOL_STARTING] = {"starting", BIT(SBX_POOL_IDLE) | BIT(SBX_POOL_DYING)},
    [SBX_POOL_IDLE] = {"idle", BIT(SBX_POOL_FREE) | BIT(SBX_POOL_DYING)},
    [SBX_POOL_DYING] = {"dying", BIT(SBX_POOL_FREE)},
};

_Static_assert(CR_ARRAY_SIZE(states) == SBX_POOL_STATE_COUNT, "one row per state");

bool sbx_pool_can_move(enum sbx_pool_state from, enum sbx_pool_state to)
{
    return from < SBX_POOL_STATE_COUNT && to < SBX_POOL_STATE_COUNT &&
           (states[from].next & BIT(to)) != 0;
}

static void move(struct sbx_native *native, struct sbx_pool_slot *slot, enum sbx_pool_state to,
                 int64_t deadline_ns)
{
    assert(sbx_pool_can_move(slot->state, to));
    native->base.pool_ready -= slot->state == SBX_POOL_IDLE;
    native->base.pool_ready += to == SBX_POOL_IDLE;
    slot->state = to;
    slot->deadline_ns = deadline_ns;
}

/* ---- the life of a slot ---- */

static int watch_end(struct sbx_native *native, const struct sbx_pool_slot *slot)
{
    uint32_t index = (uint32_t)(slot - native->pool.slots);

    return sbx_backend_watch(&native->base, slot->cell.box.pidfd, EPOLLIN,
                             SBX_NATIVE_WATCH_POOL_DEAD + index, NULL);
}

/* Watched as the slot's; the run that takes the box watches the same fds as its own. */
static int watch(struct sbx_native *native, const struct sbx_pool_slot *slot)
{
    uint32_t index = (uint32_t)(slot - native->pool.slots);
    int r = sbx_backend_watch(&native->base, slot->cell.box.control_fd, EPOLLIN,
                              SBX_NATIVE_WATCH_POOL_CONTROL + index, NULL);

    return r < 0 || slot->cell.box.pidfd < 0 ? r : watch_end(native, slot);
}

static void discard(struct sbx_native *native, struct sbx_pool_slot *slot)
{
    (void)sbx_cgroup_kill(&slot->cell.group);
    sbx_box_kill(&slot->cell.box);
    sbx_backend_unwatch(&native->base, slot->cell.box.control_fd);
    cr_close_fd(&slot->cell.box.control_fd);
    move(native, slot, SBX_POOL_DYING, INT64_MAX);
}

/* Reaps a dead box and gives its cell back. */
static void bury(struct sbx_native *native, struct sbx_pool_slot *slot)
{
    sbx_backend_unwatch(&native->base, slot->cell.box.pidfd);
    sbx_box_reap(&slot->cell.box);
    sbx_cell_close(native, &slot->cell);
    move(native, slot, SBX_POOL_FREE, INT64_MAX);
}

static void put_off(struct sbx_native *native)
{
    native->pool.retry_ns = cr_clock_mono_ns() + RETRY_NS;
}

/*
 * While it waited: nothing speaks against another one at once, unless it had
 * hardly begun to. A machine without memory kills the next as well, and making
 * one box after the other would take what is left.
 */
static void on_end(struct sbx_native *native, struct sbx_pool_slot *slot)
{
    const int64_t idle_ns = slot->deadline_ns - AGE_NS;

    cr_log_warn("a box of the pool died, making another kind=%s", slot->starter->name);
    if (cr_clock_mono_ns() - idle_ns < RETRY_NS)
        put_off(native);
    discard(native, slot);
}

/* False when the kind has to wait. */
static bool start(struct sbx_native *native, struct sbx_pool_slot *slot)
{
    const struct sbx_limits limits = sbx_backend_usual_limits(&native->base);
    struct cr_err err = CR_ERR_INIT;
    enum sbx_stage stage;
    int r;

    slot->has_waited = false;
    if (sbx_cell_open(native, !slot->starter->needs_templates, &slot->cell) < 0)
        return false; /* the keeper's next answer comes back here */
    stage = sbx_cell_furnish(native, &slot->cell, &limits, (int64_t)native->box_bytes, &err);
    r = stage == SBX_STAGE_NONE ? slot->starter->start(native, &slot->cell, &err) : err.code;
    if (r < 0) {
        if (r != -EAGAIN)
            cr_log_error("cannot fill the pool kind=%s error=\"%s\"", slot->starter->name,
                         err.text);
        sbx_ending_close(native, &slot->cell);
        put_off(native);
        return false;
    }
    move(native, slot, SBX_POOL_STARTING, cr_clock_mono_ns() + cr_patience_ns(START_DEADLINE_NS));
    r = watch(native, slot);
    if (r < 0) {
        /* Without its events we would not see its end: this one wait is synchronous. */
        cr_log_error("cannot watch a box of the pool error=%s", strerrordesc_np(-r));
        discard(native, slot);
        bury(native, slot);
        put_off(native);
        return false;
    }
    return true;
}

/*
 * What the box is charged for as it waits is not the program's, nor is the CPU
 * time that it took to make it: only now comes the limit on that.
 */
static int settle(const struct sbx_native *native, struct sbx_pool_slot *slot, struct cr_err *err)
{
    const struct sbx_limits limits = sbx_backend_usual_limits(&native->base);
    int r = sbx_cell_measure(&slot->cell, &slot->idle_bytes, err);

    if (r == 0)
        r = sbx_cell_limit_group(&slot->cell, &limits, slot->idle_bytes, err);
    if (r == 0)
        r = sbx_cell_limit_cpu(&slot->cell, &limits, err);
    return r < 0 ? r : sbx_cgroup_usage(&slot->cell.group, &slot->idle, err);
}

/* It waits, and we can see its end. */
static int become_idle(struct sbx_native *native, struct sbx_pool_slot *slot, struct cr_err *err)
{
    int r = settle(native, slot, err);

    if (r < 0)
        return r;
    move(native, slot, SBX_POOL_IDLE, cr_clock_mono_ns() + AGE_NS);
    sbx_ahead_tell_full(&native->base);
    return 0;
}

void sbx_pool_on_started(struct sbx_native *native, struct sbx_pool_slot *slot,
                         const struct sbx_box *box)
{
    struct cr_err err = CR_ERR_INIT;
    int r;

    if (!box) {
        if (slot->state != SBX_POOL_DYING)
            discard(native, slot);
        bury(native, slot);
        put_off(native);
        return;
    }
    slot->cell.box.pid = box->pid;
    slot->cell.box.pidfd = box->pidfd;
    r = watch_end(native, slot);
    if (r == 0 && slot->state == SBX_POOL_STARTING && slot->has_waited)
        r = become_idle(native, slot, &err);
    if (r == 0 && slot->state != SBX_POOL_DYING)
        return;
    if (r < 0)
        cr_log_error("cannot use a box of the pool kind=%s error=\"%s\"", slot->starter->name,
                     err.code < 0 ? err.text : strerrordesc_np(-r));
    if (slot->state == SBX_POOL_DYING)
        sbx_box_kill(&slot->cell.box); /* given up before it was there */
    else
        discard(native, slot);
}

void sbx_pool_on_control(struct sbx_native *native, uint32_t index)
{
    struct sbx_pool_slot *slot = &native->pool.slots[index];
    struct cr_err err = CR_ERR_INIT;
    struct sbx_init_msg msg = {0};
    ssize_t n;

    if (slot->cell.box.control_fd < 0)
        return; /* killed or handed out earlier in this round of events */
    n = recv(slot->cell.box.control_fd, &msg, sizeof(msg), MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n == sizeof(msg) && msg.event == SBX_INIT_WAITING && slot->state == SBX_POOL_STARTING) {
        slot->has_waited = slot->cell.box.pidfd < 0;
        if (slot->has_waited || become_idle(native, slot, &err) == 0)
            return;
    }
    if (n == 0 && slot->state == SBX_POOL_IDLE) {
        on_end(native, slot);
        return;
    }
    if (err.code == 0 && n == sizeof(msg) && msg.event == SBX_INIT_FAILED)
        (void)cr_err_sys(&err, msg.error, "step '%s'", sbx_stage_name(msg.stage));
    cr_log_error("a box of the pool does not wait as it must kind=%s state=%s error=\"%s\"",
                 slot->starter->name, states[slot->state].name, err.text);
    put_off(native);
    discard(native, slot);
}

void sbx_pool_on_dead(struct sbx_native *native, uint32_t index)
{
    struct sbx_pool_slot *slot = &native->pool.slots[index];

    /* The event may be about the box that was here when this round began. */
    if (!sbx_box_is_dead(&slot->cell.box))
        return;
    if (slot->state == SBX_POOL_STARTING)
        sbx_pool_on_control(native, index); /* its last words */
    if (slot->state == SBX_POOL_IDLE)
        on_end(native, slot);
    if (slot->state != SBX_POOL_DYING)
        discard(native, slot);
    bury(native, slot);
}

void sbx_pool_drop_forked(struct sbx_native *native, int index)
{
    for (uint32_t i = 0; i < native->pool.slot_count; i++) {
        struct sbx_pool_slot *slot = &native->pool.slots[i];

        if ((slot->state == SBX_POOL_STARTING || slot->state == SBX_POOL_IDLE) &&
            slot->cell.asked_of == index)
            discard(native, slot);
    }
}

/* ---- handing out ---- */

/* Read-only files are put in place by sandbox-init, which is work of ours, too. */
static bool may_go_along(const struct sbx_job *job)
{
    return (job->flags & SBX_RUN_HAS_READ_ONLY) == 0 && sbx_ahead_is_small(job);
}

static int load(struct sbx_pool_slot *slot, struct sbx_job *job, struct cr_err *err)
{
    struct sbx_init_msg msg = {.event = SBX_INIT_LOAD};

    if (may_go_along(job)) {
        int r = sbx_cell_limit_cpu(&slot->cell, &job->limits, err);

        if (r < 0)
            return r;
        msg.event = SBX_INIT_LOAD_GO;
        sbx_job_go_along(job, &slot->idle);
    }
    return sbx_fds_send(slot->cell.box.control_fd, &msg, sizeof(msg), job->fds, SBX_INIT_LOAD_FDS);
}

bool sbx_pool_take(struct sbx_native *native, struct sbx_job *job, struct sbx_cell *ret_cell,
                   int64_t *ret_idle_bytes)
{
    for (uint32_t i = 0; i < native->pool.slot_count; i++) {
        struct sbx_pool_slot *slot = &native->pool.slots[i];
        struct cr_err err = CR_ERR_INIT;
        int r;

        if (slot->state != SBX_POOL_IDLE || !sbx_cell_fits(&slot->cell, &job->limits) ||
            !slot->starter->serves(native, job))
            continue;
        r = sbx_box_is_dead(&slot->cell.box) ? -EPIPE : 0;
        if (r == 0)
            r = sbx_cell_limit_group(&slot->cell, &job->limits, slot->idle_bytes, &err);
        if (r == 0)
            r = sbx_cell_limit_program(native, &slot->cell, &job->limits, &err);
        if (r == 0)
            r = load(slot, job, &err);
        if (r == 0) {
            *ret_cell = slot->cell;
            *ret_idle_bytes = slot->idle_bytes;
            slot->cell = (struct sbx_cell)SBX_CELL_INIT;
            move(native, slot, SBX_POOL_FREE, INT64_MAX);
            return true;
        }
        cr_log_warn("a box of the pool cannot be used, trying another run=%" PRIu64 " error=\"%s\"",
                    job->id, err.code < 0 ? err.text : strerrordesc_np(-r));
        job->along_ns = 0;
        discard(native, slot);
    }
    return false;
}

/* ---- time ---- */

static int64_t fill_ns(const struct sbx_native *native)
{
    int64_t quiet_ns = sbx_ahead_quiet_ns(&native->base);

    return quiet_ns > native->pool.retry_ns ? quiet_ns : native->pool.retry_ns;
}

static uint32_t count_in(const struct sbx_pool *pool, enum sbx_pool_state state)
{
    uint32_t found = 0;

    for (uint32_t i = 0; i < pool->slot_count; i++)
        found += pool->slots[i].state == state;
    return found;
}

static bool is_ready(const struct sbx_native *native, const struct sbx_pool_slot *slot)
{
    return !slot->starter->is_ready || slot->starter->is_ready(native);
}

/* Whether a box of the pool is there, or soon will be. */
static bool is_stock(const struct sbx_pool_slot *slot)
{
    return slot->state == SBX_POOL_STARTING || slot->state == SBX_POOL_IDLE;
}

/*
 * From when on this one may be filled, as far as other runs are concerned. A box
 * of a template takes about as long as a short run, and takes it from those that
 * go on. While half of its kind waits, the next runs are served: it is made in a
 * lull. With less, on cores that neither young runs nor other boxes have; with
 * none, at once.
 */
static int64_t room_ns(const struct sbx_native *native, const struct sbx_pool_slot *slot)
{
    const struct sbx_pool *pool = &native->pool;
    uint32_t starting = count_in(pool, SBX_POOL_STARTING);
    uint32_t all = 0;
    uint32_t stock = 0;

    for (uint32_t i = 0; i < pool->slot_count; i++) {
        all += pool->slots[i].starter == slot->starter;
        stock += pool->slots[i].starter == slot->starter && is_stock(&pool->slots[i]);
    }
    if (stock == 0 || !slot->starter->needs_templates || starting >= pool->starting_most)
        return 0;
    return 2 * stock >= all ? sbx_ahead_lull_ns(&native->base)
                            : sbx_ahead_room_ns(&native->base, pool->starting_most - starting);
}

static void fill(struct sbx_native *native, int64_t now_ns)
{
    struct sbx_pool *pool = &native->pool;
    uint32_t starting = count_in(pool, SBX_POOL_STARTING);

    for (uint32_t i = 0; i < pool->slot_count && starting < pool->starting_most; i++) {
        if (pool->slots[i].state != SBX_POOL_FREE || !is_ready(native, &pool->slots[i]) ||
            now_ns < room_ns(native, &pool->slots[i]))
            continue;
        if (!start(native, &pool->slots[i]))
            return;
        starting++;
        sbx_groups_begin_boxes(native); /* in the place of the one it took */
    }
}

static void recycle(struct sbx_native *native, int64_t now_ns)
{
    for (uint32_t i = 0; i < native->pool.slot_count; i++) {
        struct sbx_pool_slot *slot = &native->pool.slots[i];
        bool is_due = slot->deadline_ns <= now_ns || native->base.is_stopping;

        if (!is_stock(slot) || !is_due)
            continue;
        if (slot->state == SBX_POOL_STARTING && !native->base.is_stopping)
            cr_log_error("a box of the pool is not there in time kind=%s", slot->starter->name);
        if (slot->cell.asked != 0 && !native->base.is_stopping)
            sbx_templates_give_up(native, (uint32_t)slot->cell.asked_of); /* tells every slot */
        else
            discard(native, slot);
    }
}

void sbx_pool_on_time(struct sbx_native *native, int64_t now_ns)
{
    recycle(native, now_ns);
    if (!native->base.is_stopping && now_ns >= fill_ns(native))
        fill(native, now_ns);
}

int64_t sbx_pool_next_ns(const struct sbx_native *native)
{
    const struct sbx_pool *pool = &native->pool;
    int64_t now_ns = cr_clock_mono_ns();
    int64_t quiet_ns = fill_ns(native);
    int64_t next = INT64_MAX;

    for (uint32_t i = 0; i < pool->slot_count; i++) {
        const struct sbx_pool_slot *slot = &pool->slots[i];
        int64_t wanted_ns = slot->state == SBX_POOL_FREE ? room_ns(native, slot) : 0;

        wanted_ns = quiet_ns > wanted_ns ? quiet_ns : wanted_ns;
        if (slot->state != SBX_POOL_FREE && slot->deadline_ns < next)
            next = slot->deadline_ns;
        /* One that may be filled already waits for the keeper or for others that are starting. */
        if (slot->state == SBX_POOL_FREE && wanted_ns > now_ns && wanted_ns < next)
            next = wanted_ns;
    }
    return next;
}

bool sbx_pool_is_empty(const struct sbx_pool *pool)
{
    return count_in(pool, SBX_POOL_FREE) == pool->slot_count;
}

/* ---- the plain kind ---- */

static int start_plain(struct sbx_native *native, struct sbx_cell *cell, struct cr_err *err)
{
    return sbx_cell_start(native, cell, SBX_BOX_AHEAD, NULL, err);
}

/* Everybody with the common root, but those who wait less for a template to fork a box than for all
 * of pytest to load.
 */
static bool serves_plain(const struct sbx_native *native, const struct sbx_job *job)
{
    return native->roots.fds[job->runtime] < 0 && !sbx_templates_are_faster(native, job);
}

const struct sbx_starter sbx_starter_plain = {
    .name = "plain",
    .standard = 4,
    .start = start_plain,
    .serves = serves_plain,
};
