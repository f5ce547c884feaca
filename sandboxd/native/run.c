/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/native/run.h"

#include "common/auto.h"
#include "common/clock.h"
#include "common/err.h"
#include "common/log.h"
#include "sandboxd/backend/userns.h"
#include "sandboxd/native/native.h"
#include "sandboxd/native/run_end.h"
#include "sandboxd/native/weaken.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>

#define GROUP_DEADLINE_NS (3 * CR_NS_PER_S)
#define READY_DEADLINE_NS (15 * CR_NS_PER_S)
#define KILL_DEADLINE_NS (10 * CR_NS_PER_S) /* then we say that it hangs, and go on waiting */
#define POLL_MIN_NS (5 * CR_NS_PER_MS)
#define OOM_POLL_NS (2 * CR_NS_PER_MS)
#define OOM_WATCH_NS (500 * CR_NS_PER_MS)
#define WEAK_FACTOR 16 /* of a workspace whose limits are left out: see weaken.h */

#define BIT(state) (1U << (state))

static const struct {
    const char *name;
    uint32_t next; /* bit set of the states that may follow */
} states[] = {
    [SBX_RUN_FREE] = {"free", BIT(SBX_RUN_WAITING)},
    [SBX_RUN_WAITING] = {"waiting", BIT(SBX_RUN_PREPARING) | BIT(SBX_RUN_FREE)},
    [SBX_RUN_PREPARING] = {"preparing", BIT(SBX_RUN_RUNNING) | BIT(SBX_RUN_KILLING)},
    [SBX_RUN_RUNNING] = {"running", BIT(SBX_RUN_KILLING)},
    [SBX_RUN_KILLING] = {"killing", BIT(SBX_RUN_DRAINING) | BIT(SBX_RUN_FREE)},
    [SBX_RUN_DRAINING] = {"draining", BIT(SBX_RUN_FREE)},
};

_Static_assert(CR_ARRAY_SIZE(states) == SBX_RUN_STATE_COUNT, "one row per state");

bool sbx_run_can_move(enum sbx_run_state from, enum sbx_run_state to)
{
    return from < SBX_RUN_STATE_COUNT && to < SBX_RUN_STATE_COUNT &&
           (states[from].next & BIT(to)) != 0;
}

const char *sbx_run_state_name(enum sbx_run_state state)
{
    return state < SBX_RUN_STATE_COUNT ? states[state].name : "unknown";
}

void sbx_run_move(struct sbx_run *run, enum sbx_run_state to, int64_t deadline_ns)
{
    assert(sbx_run_can_move(run->state, to));
    cr_log_debug("run moves run=%" PRIu64 " slot=%" PRIu32 " from=%s to=%s", run->id, run->slot,
                 states[run->state].name, states[to].name);
    run->state = to;
    run->deadline_ns = deadline_ns;
    run->poll_ns = INT64_MAX;
    run->oom_until_ns = 0;
}

void sbx_run_init(struct sbx_run *run, uint32_t slot, int userns_fd)
{
    *run = (struct sbx_run){
        .slot = slot,
        .userns_fd = userns_fd,
        .workspace_fd = -1,
        .box = SBX_BOX_INIT,
        .collector_pid = -1,
        .collector_pidfd = -1,
        .deadline_ns = INT64_MAX,
        .poll_ns = INT64_MAX,
    };
    for (int i = 0; i < SBX_RUN_FDS; i++)
        run->fds[i] = -1;
}

void sbx_run_begin(struct sbx_native *native, struct sbx_run *run, const struct sbx_msg_run *msg,
                   const int fds[SBX_RUN_FDS])
{
    uint32_t generation = run->generation + 1;
    int64_t now_ns = cr_clock_mono_ns();

    sbx_run_init(run, run->slot, run->userns_fd);
    run->generation = generation;
    run->id = msg->header.run;
    run->limits = msg->limits;
    run->received_ns = now_ns;
    run->facts.limits = &run->limits;
    memcpy(run->fds, fds, sizeof(run->fds));
    sbx_run_move(run, SBX_RUN_WAITING, now_ns + GROUP_DEADLINE_NS);
    sbx_run_on_group(native, run);
}

/* SIGKILL for all of the box. What made us do it is already in the facts. */
static void kill_box(struct sbx_run *run, int64_t now_ns)
{
    if (run->state == SBX_RUN_KILLING)
        return;
    run->kill_ns = now_ns;
    if (run->end_ns == 0)
        run->end_ns = now_ns;
    run->facts.is_killed = !run->facts.has_leader;
    (void)sbx_cgroup_kill(&run->group);
    sbx_box_kill(&run->box);
    sbx_run_move(run, SBX_RUN_KILLING, now_ns + KILL_DEADLINE_NS);
}

/* A start that failed: nobody was told STARTED. */
static void fail_start(struct sbx_native *native, struct sbx_run *run, enum sbx_stage stage, int r)
{
    run->facts.stage = stage;
    run->facts.error = -r;
    sbx_run_finish(native, run);
}

static int watch_box(struct sbx_native *native, struct sbx_run *run)
{
    bool is_v2 = native->cgroups.ops->version == 2;
    int r = sbx_native_watch(native, run->box.control_fd, EPOLLIN, SBX_WATCH_CONTROL, run);

    if (r == 0)
        r = sbx_native_watch(native, run->box.pidfd, EPOLLIN, SBX_WATCH_DEAD, run);
    if (r == 0 && run->group.event_fd >= 0)
        r = sbx_native_watch(native, run->group.event_fd, is_v2 ? EPOLLPRI : EPOLLIN, SBX_WATCH_OOM,
                             run);
    return r;
}

/* Control group and workspace. Returns the stage that failed, or NONE. */
static enum sbx_stage make_surroundings(struct sbx_native *native, struct sbx_run *run,
                                        struct cr_err *err)
{
    uid_t owner = native->uid_base + run->slot * SBX_USERNS_RANGE + SBX_USERNS_PROGRAM_ID;
    uint64_t weak = sbx_is_weakened(native, SBX_CONTROL_TMPFS) ? WEAK_FACTOR : 1;

    if (sbx_cgroup_limit(&run->group, &run->limits, err) < 0 ||
        sbx_cgroup_arm(&run->group, err) < 0)
        return SBX_STAGE_CGROUP;
    if (sbx_workspace_make(run->limits.value[SBX_LIMIT_WORKSPACE_BYTES] * weak,
                           run->limits.value[SBX_LIMIT_WORKSPACE_INODES] * weak, owner,
                           &run->workspace_fd, err) < 0)
        return SBX_STAGE_MOUNT;
    return SBX_STAGE_NONE;
}

static int start_box(struct sbx_native *native, struct sbx_run *run, struct cr_err *err)
{
    struct sbx_box_plan plan = {
        .group = &run->group,
        .limits = &run->limits,
        .init_fd = native->init_fd,
        .seccomp_fd = native->seccomp_fd,
        .userns_fd = run->userns_fd,
        .workspace_fd = run->workspace_fd,
        .payload_fd = run->fds[0],
        .stdio_fds = {run->fds[1], run->fds[2], run->fds[3]},
        .weakened = native->weakened,
    };
    int r = sbx_box_start(&plan, &run->box, err);

    if (r < 0)
        return r;
    /* Only the box holds these from now on: their end is the end of the box. */
    for (int i = 1; i <= 3; i++)
        cr_close_fd(&run->fds[i]);
    return 0;
}

void sbx_run_on_group(struct sbx_native *native, struct sbx_run *run)
{
    struct cr_err err = CR_ERR_INIT;
    enum sbx_stage stage;
    int r;

    if (sbx_groups_take(native, &run->group) < 0)
        return; /* comes again when the keeper has made one */
    run->has_group = true;
    stage = make_surroundings(native, run, &err);
    if (stage == SBX_STAGE_NONE && start_box(native, run, &err) < 0)
        stage = SBX_STAGE_CLONE;
    if (stage != SBX_STAGE_NONE) {
        cr_log_error("cannot start a box run=%" PRIu64 " error=\"%s\"", run->id, err.text);
        fail_start(native, run, stage, err.code);
        return;
    }
    sbx_run_move(run, SBX_RUN_PREPARING, cr_clock_mono_ns() + READY_DEADLINE_NS);
    r = watch_box(native, run);
    if (r < 0) {
        /* Without its events we would not see its end: this one wait is synchronous. */
        run->facts.stage = SBX_STAGE_CLONE;
        run->facts.error = -r;
        kill_box(run, cr_clock_mono_ns());
        sbx_run_on_dead(native, run);
    }
}

/*
 * When to look at the counters next: not before the program can have used up
 * its CPU time, and then often.
 */
static int64_t next_poll_ns(const struct sbx_run *run, int64_t now_ns, uint64_t used_us)
{
    uint64_t limit_us = run->limits.value[SBX_LIMIT_CPU_TIME] * 1000;
    uint64_t left_us = limit_us > used_us ? limit_us - used_us : 0;
    int64_t wait_ns =
        (int64_t)(left_us * 1000 / run->limits.value[SBX_LIMIT_CPU_MILLICORES]) * CR_NS_PER_US;

    return now_ns + (wait_ns > POLL_MIN_NS ? wait_ns : POLL_MIN_NS);
}

/*
 * Looks at the three limits that end a running program, in the order that
 * decides ties. The event is stored before the kill is sent.
 */
static void check_limits(struct sbx_run *run, int64_t now_ns)
{
    uint64_t oom_kills = 0;
    uint64_t cpu_us = 0;
    int64_t wall_ms = (now_ns - run->go_ns) / CR_NS_PER_MS;

    if (sbx_cgroup_oom_kills(&run->group, &oom_kills) == 0 && oom_kills > 0)
        sbx_facts_add(&run->facts, SBX_VERDICT_MEMORY_LIMIT, 0);
    if (now_ns >= run->poll_ns && sbx_cgroup_cpu_us(&run->group, &cpu_us) == 0) {
        cpu_us -= run->baseline.cpu_total_us;
        if (cpu_us >= run->limits.value[SBX_LIMIT_CPU_TIME] * 1000)
            sbx_facts_add(&run->facts, SBX_VERDICT_CPU_TIME_LIMIT, cpu_us / 1000);
        run->poll_ns = next_poll_ns(run, now_ns, cpu_us);
    }
    if (now_ns >= run->deadline_ns)
        sbx_facts_add(&run->facts, SBX_VERDICT_WALL_TIME_LIMIT, (uint64_t)wall_ms);
    if (run->facts.event_count > 0)
        kill_box(run, now_ns);
}

static void send_started(struct sbx_native *native, const struct sbx_run *run)
{
    union sbx_msg msg;

    sbx_msg_init(&msg, SBX_MSG_STARTED, run->id);
    msg.started.prepare_us = (uint64_t)((run->go_ns - run->received_ns) / CR_NS_PER_US);
    sbx_native_send(native, &msg);
}

static void on_ready(struct sbx_native *native, struct sbx_run *run)
{
    struct sbx_init_msg go = {.event = SBX_INIT_GO};
    struct cr_err err = CR_ERR_INIT;
    int64_t now_ns;

    if (sbx_cgroup_usage(&run->group, &run->baseline, &err) < 0) {
        cr_log_error("cannot read counters run=%" PRIu64 " error=\"%s\"", run->id, err.text);
        run->facts.stage = SBX_STAGE_MEASURE;
        run->facts.error = -err.code;
        kill_box(run, cr_clock_mono_ns());
        return;
    }
    now_ns = cr_clock_mono_ns();
    if (send(run->box.control_fd, &go, sizeof(go), MSG_NOSIGNAL) != sizeof(go)) {
        run->facts.stage = SBX_STAGE_INIT;
        run->facts.error = errno;
        kill_box(run, now_ns);
        return;
    }
    run->go_ns = now_ns;
    sbx_run_move(run, SBX_RUN_RUNNING,
                 now_ns + (int64_t)run->limits.value[SBX_LIMIT_WALL_TIME] * CR_NS_PER_MS);
    run->poll_ns = next_poll_ns(run, now_ns, 0);
    if (sbx_is_weakened(native, SBX_CONTROL_WALL_TIME))
        run->deadline_ns = INT64_MAX;
    if (sbx_is_weakened(native, SBX_CONTROL_CPU_TIME))
        run->poll_ns = INT64_MAX;
    send_started(native, run);
}

/* True when the numbers are what a sandbox-init of ours can say. */
static bool is_plausible(const struct sbx_init_msg *msg)
{
    return msg->stage < SBX_STAGE_COUNT && msg->error >= 0 && msg->error < 4096 &&
           msg->wait_status >= 0 && msg->wait_status <= 0xffff &&
           (WIFEXITED(msg->wait_status) || WIFSIGNALED(msg->wait_status));
}

static void on_init_message(struct sbx_native *native, struct sbx_run *run,
                            const struct sbx_init_msg *msg)
{
    int64_t now_ns = cr_clock_mono_ns();

    if (msg->event == SBX_INIT_READY && run->state == SBX_RUN_PREPARING) {
        on_ready(native, run);
    } else if (msg->event == SBX_INIT_FAILED &&
               (run->state == SBX_RUN_PREPARING || run->state == SBX_RUN_RUNNING)) {
        run->facts.stage = msg->stage == SBX_STAGE_NONE ? SBX_STAGE_INIT : msg->stage;
        run->facts.error = msg->error;
        kill_box(run, now_ns);
    } else if (msg->event == SBX_INIT_EXITED && run->state == SBX_RUN_RUNNING) {
        run->facts.has_leader = true;
        run->facts.wait_status = msg->wait_status;
        run->leftovers = msg->leftovers;
        run->end_ns = now_ns;
        kill_box(run, now_ns);
    } else if (run->state != SBX_RUN_KILLING) {
        run->facts.stage = SBX_STAGE_INIT;
        run->facts.error = EPROTO;
        kill_box(run, now_ns);
    }
}

void sbx_run_on_control(struct sbx_native *native, struct sbx_run *run)
{
    struct sbx_init_msg msg;
    ssize_t n;

    if (run->box.control_fd < 0)
        return; /* reaped earlier in this round of events */
    n = recv(run->box.control_fd, &msg, sizeof(msg), MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n == sizeof(msg) && is_plausible(&msg)) {
        on_init_message(native, run, &msg);
        return;
    }
    /* Its end: the pidfd tells the rest. Anything else is not our sandbox-init any more. */
    (void)epoll_ctl(native->epoll_fd, EPOLL_CTL_DEL, run->box.control_fd, NULL);
    if (n != 0 && run->state != SBX_RUN_KILLING) {
        run->facts.stage = SBX_STAGE_INIT;
        run->facts.error = EPROTO;
        kill_box(run, cr_clock_mono_ns());
    }
}

void sbx_run_on_dead(struct sbx_native *native, struct sbx_run *run)
{
    if (run->box.pidfd < 0)
        return; /* reaped earlier in this round of events */
    /* Its last words may have come in the same round. */
    for (enum sbx_run_state before = SBX_RUN_FREE; before != run->state;) {
        before = run->state;
        if (run->state == SBX_RUN_PREPARING || run->state == SBX_RUN_RUNNING)
            sbx_run_on_control(native, run);
    }
    if (run->state != SBX_RUN_KILLING)
        kill_box(run, cr_clock_mono_ns()); /* it went by itself: an OOM kill, or our fault */
    sbx_box_reap(&run->box);
    run->dead_ns = cr_clock_mono_ns();
    sbx_run_on_empty(native, run);
}

void sbx_run_on_oom(struct sbx_native *native, struct sbx_run *run)
{
    uint64_t count = 0;
    int64_t now_ns = cr_clock_mono_ns();

    (void)native;
    /* v1: resets the eventfd. v2: reading the counter through the same fd arms it again. */
    if (read(run->group.event_fd, &count, sizeof(count)) < 0 && errno != EAGAIN)
        cr_log_warn("cannot read an OOM event run=%" PRIu64 " error=%s", run->id,
                    strerrordesc_np(errno));
    if (run->state != SBX_RUN_RUNNING)
        return; /* the counters at the end tell */
    check_limits(run, now_ns);
    /* v1 tells before the victim is chosen. */
    if (run->state == SBX_RUN_RUNNING) {
        run->oom_until_ns = now_ns + OOM_WATCH_NS;
        run->oom_poll_ns = now_ns + OOM_POLL_NS;
    }
}

void sbx_run_on_time(struct sbx_native *native, struct sbx_run *run, int64_t now_ns)
{
    switch (run->state) {
    case SBX_RUN_WAITING:
        fail_start(native, run, SBX_STAGE_CGROUP, -ETIMEDOUT);
        break;
    case SBX_RUN_PREPARING:
        cr_log_error("sandbox-init is not ready in time run=%" PRIu64, run->id);
        run->facts.stage = SBX_STAGE_INIT;
        run->facts.error = ETIMEDOUT;
        kill_box(run, now_ns);
        break;
    case SBX_RUN_RUNNING:
        check_limits(run, now_ns);
        run->oom_poll_ns = now_ns + OOM_POLL_NS;
        if (run->oom_until_ns <= now_ns)
            run->oom_until_ns = 0;
        break;
    case SBX_RUN_KILLING:
        cr_log_error("a killed box does not end run=%" PRIu64 " slot=%" PRIu32, run->id, run->slot);
        sbx_box_kill(&run->box);
        run->deadline_ns = now_ns + KILL_DEADLINE_NS;
        break;
    case SBX_RUN_DRAINING:
        sbx_run_on_drain_time(native, run, now_ns);
        break;
    case SBX_RUN_FREE:
    case SBX_RUN_STATE_COUNT:
        break;
    }
}

void sbx_run_on_cancel(struct sbx_native *native, struct sbx_run *run)
{
    int64_t now_ns = cr_clock_mono_ns();

    if (run->state == SBX_RUN_RUNNING)
        check_limits(run, now_ns);
    if (run->state > SBX_RUN_RUNNING)
        return; /* it is over: whatever ended it came first */
    sbx_facts_add(&run->facts, SBX_VERDICT_CANCELLED, 0);
    if (run->state == SBX_RUN_WAITING)
        sbx_run_finish(native, run);
    else
        kill_box(run, now_ns);
}

void sbx_run_on_output_limit(struct sbx_native *native, struct sbx_run *run,
                             const struct sbx_msg_output_limit *msg)
{
    int64_t now_ns = cr_clock_mono_ns();
    uint64_t oom_kills = 0;

    if (run->state != SBX_RUN_RUNNING || sbx_is_weakened(native, SBX_CONTROL_OUTPUT))
        return;
    /* Memory wins a tie, the clocks do not. */
    if (sbx_cgroup_oom_kills(&run->group, &oom_kills) == 0 && oom_kills > 0)
        sbx_facts_add(&run->facts, SBX_VERDICT_MEMORY_LIMIT, 0);
    sbx_facts_add(&run->facts, SBX_VERDICT_OUTPUT_LIMIT, msg->observed);
    kill_box(run, now_ns);
}

void sbx_run_abandon(struct sbx_native *native, struct sbx_run *run)
{
    if (run->state == SBX_RUN_WAITING) {
        sbx_run_finish(native, run);
    } else if (run->state == SBX_RUN_PREPARING || run->state == SBX_RUN_RUNNING) {
        sbx_facts_add(&run->facts, SBX_VERDICT_CANCELLED, 0);
        kill_box(run, cr_clock_mono_ns());
    } else if (run->state == SBX_RUN_DRAINING) {
        sbx_run_abandon_drain(native, run);
    }
}

int64_t sbx_run_next_ns(const struct sbx_run *run)
{
    int64_t next = run->deadline_ns;

    if (run->state == SBX_RUN_FREE)
        return INT64_MAX;
    if (run->poll_ns < next)
        next = run->poll_ns;
    if (run->oom_until_ns > 0 && run->oom_poll_ns < next)
        next = run->oom_poll_ns;
    return next;
}
