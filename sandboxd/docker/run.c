/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/docker/run.h"

#include "common/auto.h"
#include "common/clock.h"
#include "common/err.h"
#include "common/log.h"
#include "sandboxd/docker/docker.h"
#include "sandboxd/docker/run_parts.h"
#include "sandboxd/init/program.h"

#include <assert.h>
#include <inttypes.h>
#include <signal.h>
#include <string.h>

#include <sys/epoll.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define KILL_DEADLINE_NS (10 * CR_NS_PER_S) /* then we say that it hangs, and go on waiting */
/* What of the output is still on its way when the box is dead: the engine passes it on at once, so
 * that only a reader who does not read is waited for in vain. */
#define FLUSH_DEADLINE_NS (500 * CR_NS_PER_MS)
#define POLL_MIN_NS (5 * CR_NS_PER_MS)
#define OOM_POLL_NS (2 * CR_NS_PER_MS)
#define OOM_WATCH_NS (500 * CR_NS_PER_MS)

#define FOLDER_MODE_SHARED 01775

#define BIT(state) (1U << (state))

static const struct {
    const char *name;
    uint32_t next; /* bit set of the states that may follow */
} states[] = {
    [SBX_DOCKER_FREE] = {"free", BIT(SBX_DOCKER_CREATING)},
    [SBX_DOCKER_CREATING] = {"creating", BIT(SBX_DOCKER_ATTACHING) | BIT(SBX_DOCKER_FREE)},
    [SBX_DOCKER_ATTACHING] = {"attaching", BIT(SBX_DOCKER_STARTING) | BIT(SBX_DOCKER_FREE)},
    [SBX_DOCKER_STARTING] = {"starting", BIT(SBX_DOCKER_INSPECTING) | BIT(SBX_DOCKER_FREE)},
    [SBX_DOCKER_INSPECTING] = {"inspecting", BIT(SBX_DOCKER_PREPARING) | BIT(SBX_DOCKER_FREE)},
    [SBX_DOCKER_PREPARING] = {"preparing", BIT(SBX_DOCKER_RUNNING) | BIT(SBX_DOCKER_KILLING)},
    [SBX_DOCKER_RUNNING] = {"running", BIT(SBX_DOCKER_KILLING)},
    [SBX_DOCKER_KILLING] = {"killing", BIT(SBX_DOCKER_DRAINING) | BIT(SBX_DOCKER_FREE)},
    [SBX_DOCKER_DRAINING] = {"draining", BIT(SBX_DOCKER_FREE)},
};

_Static_assert(CR_ARRAY_SIZE(states) == SBX_DOCKER_STATE_COUNT, "one row per state");

bool sbx_docker_run_can_move(enum sbx_docker_state from, enum sbx_docker_state to)
{
    return from < SBX_DOCKER_STATE_COUNT && to < SBX_DOCKER_STATE_COUNT &&
           (states[from].next & BIT(to)) != 0;
}

void sbx_docker_run_move(struct sbx_docker_run *run, enum sbx_docker_state to, int64_t deadline_ns)
{
    assert(sbx_docker_run_can_move(run->state, to));
    cr_log_debug("run moves run=%" PRIu64 " slot=%" PRIu32 " from=%s to=%s container=%.12s",
                 run->id, run->slot, states[run->state].name, states[to].name, run->container);
    run->state = to;
    run->deadline_ns = deadline_ns;
    run->poll_ns = INT64_MAX;
    run->oom_until_ns = 0;
}

void sbx_docker_run_init(struct sbx_docker_run *run, uint32_t slot)
{
    *run = (struct sbx_docker_run){
        .slot = slot,
        .attach_fd = -1,
        .box_pidfd = -1,
        .folder_fds = {-1, -1, -1},
        .relay = SBX_RELAY_INIT,
        .collector_pid = -1,
        .collector_pidfd = -1,
        .deadline_ns = INT64_MAX,
        .poll_ns = INT64_MAX,
    };
    for (int i = 0; i < SBX_RUN_FDS; i++)
        run->fds[i] = -1;
}

void sbx_docker_run_begin(struct sbx_docker *docker, struct sbx_docker_run *run,
                          const struct sbx_msg_run *msg, const int fds[SBX_RUN_FDS])
{
    uint32_t generation = run->generation + 1;

    sbx_docker_run_init(run, run->slot);
    run->generation = generation;
    run->id = msg->header.run;
    run->limits = msg->limits;
    run->received_ns = cr_clock_mono_ns();
    run->facts.limits = &run->limits;
    memcpy(run->fds, fds, sizeof(run->fds));
    sbx_docker_run_move(run, SBX_DOCKER_CREATING, INT64_MAX); /* the calls have deadlines */
    sbx_docker_run_create(docker, run);
}

/*
 * The pid 1 of the container is a process of this host: its end is the end of
 * its pid namespace, whether the engine answers or not.
 */
void sbx_docker_run_kill(struct sbx_docker *docker, struct sbx_docker_run *run, int64_t now_ns)
{
    if (run->state == SBX_DOCKER_KILLING)
        return;
    (void)docker;
    run->kill_ns = now_ns;
    if (run->end_ns == 0)
        run->end_ns = now_ns;
    run->facts.is_killed = !run->facts.has_leader && !run->is_lost;
    sbx_docker_run_measure(run);
    if (run->box_pidfd >= 0)
        (void)pidfd_send_signal(run->box_pidfd, SIGKILL, NULL, 0);
    sbx_docker_run_move(run, SBX_DOCKER_KILLING, now_ns + KILL_DEADLINE_NS);
    /* Everything that the program wrote has come before the word of its end. */
    if (run->facts.has_leader)
        cr_close_fd(&run->relay.control_fd);
}

static void fail(struct sbx_docker *docker, struct sbx_docker_run *run, enum sbx_stage stage,
                 int error)
{
    run->facts.stage = stage;
    run->facts.error = error;
    sbx_docker_run_kill(docker, run, cr_clock_mono_ns());
}

/* ---- limits ---- */

/* As in the native backend: not before the program can have used up its CPU time, then often. */
static int64_t next_poll_ns(const struct sbx_docker_run *run, int64_t now_ns, uint64_t used_us)
{
    uint64_t limit_us = run->limits.value[SBX_LIMIT_CPU_TIME] * 1000;
    uint64_t left_us = limit_us > used_us ? limit_us - used_us : 0;
    int64_t wait_ns =
        (int64_t)(left_us * 1000 / run->limits.value[SBX_LIMIT_CPU_MILLICORES]) * CR_NS_PER_US;

    return now_ns + (wait_ns > POLL_MIN_NS ? wait_ns : POLL_MIN_NS);
}

static void check_memory(struct sbx_docker_run *run)
{
    uint64_t oom_kills = 0;

    if (sbx_cgroup_oom_kills(&run->group, &oom_kills) == 0 && oom_kills > 0)
        sbx_facts_add(&run->facts, SBX_VERDICT_MEMORY_LIMIT, 0);
}

/* In the order that decides ties. The event is stored before the kill is sent. */
static void check_limits(struct sbx_docker *docker, struct sbx_docker_run *run, int64_t now_ns)
{
    uint64_t cpu_us = 0;

    check_memory(run);
    if (now_ns >= run->poll_ns && sbx_cgroup_cpu_us(&run->group, &cpu_us) == 0) {
        cpu_us -= run->baseline.cpu_total_us;
        if (cpu_us >= run->limits.value[SBX_LIMIT_CPU_TIME] * 1000)
            sbx_facts_add(&run->facts, SBX_VERDICT_CPU_TIME_LIMIT, cpu_us / 1000);
        run->poll_ns = next_poll_ns(run, now_ns, cpu_us);
    }
    if (now_ns >= run->deadline_ns)
        sbx_facts_add(&run->facts, SBX_VERDICT_WALL_TIME_LIMIT,
                      (uint64_t)((now_ns - run->go_ns) / CR_NS_PER_MS));
    if (run->facts.event_count > 0)
        sbx_docker_run_kill(docker, run, now_ns);
}

/* ---- sandbox-init ---- */

static void send_started(struct sbx_docker *docker, const struct sbx_docker_run *run)
{
    union sbx_msg msg;

    sbx_msg_init(&msg, SBX_MSG_STARTED, run->id);
    msg.started.prepare_us = (uint64_t)((run->go_ns - run->received_ns) / CR_NS_PER_US);
    sbx_docker_send(docker, &msg);
}

static void on_ready(struct sbx_docker *docker, struct sbx_docker_run *run)
{
    struct sbx_init_msg go = {.event = SBX_INIT_GO};
    struct cr_err err = CR_ERR_INIT;
    int64_t now_ns;

    if (sbx_cgroup_usage(&run->group, &run->baseline, &err) < 0) {
        cr_log_error("cannot read counters run=%" PRIu64 " error=\"%s\"", run->id, err.text);
        fail(docker, run, SBX_STAGE_MEASURE, -err.code);
        return;
    }
    now_ns = cr_clock_mono_ns();
    if (send(run->relay.control_fd, &go, sizeof(go), MSG_NOSIGNAL) != sizeof(go)) {
        fail(docker, run, SBX_STAGE_INIT, errno);
        return;
    }
    run->go_ns = now_ns;
    sbx_docker_run_move(run, SBX_DOCKER_RUNNING,
                        now_ns + (int64_t)run->limits.value[SBX_LIMIT_WALL_TIME] * CR_NS_PER_MS);
    run->poll_ns = next_poll_ns(run, now_ns, 0);
    send_started(docker, run);
}

/* True when the numbers are what a sandbox-init of ours can say. */
static bool is_plausible(const struct sbx_init_msg *msg)
{
    return msg->stage < SBX_STAGE_COUNT && msg->error >= 0 && msg->error < 4096 &&
           msg->wait_status >= 0 && msg->wait_status <= 0xffff &&
           (WIFEXITED(msg->wait_status) || WIFSIGNALED(msg->wait_status));
}

/* See relay.h. The folder is still nobody's but sandbox-init's, which waits. */
static void on_share(struct sbx_docker *docker, struct sbx_docker_run *run)
{
    const struct sbx_init_msg answer = {.event = SBX_RELAY_SHARE};

    if (fchown(run->folder_fds[SBX_DOCKER_WORKSPACE], (uid_t)docker->settings->relay_user,
               SBX_PROGRAM_GID) < 0 ||
        fchmod(run->folder_fds[SBX_DOCKER_WORKSPACE], FOLDER_MODE_SHARED) < 0 ||
        send(run->relay.control_fd, &answer, sizeof(answer), MSG_NOSIGNAL) < 0)
        fail(docker, run, SBX_STAGE_PAYLOAD, errno);
}

static void on_init_message(struct sbx_docker *docker, struct sbx_docker_run *run,
                            const struct sbx_init_msg *msg)
{
    bool is_alive = run->state == SBX_DOCKER_PREPARING || run->state == SBX_DOCKER_RUNNING;

    if (msg->event == SBX_INIT_READY && run->state == SBX_DOCKER_PREPARING) {
        on_ready(docker, run);
    } else if (msg->event == SBX_RELAY_SHARE && run->state == SBX_DOCKER_PREPARING) {
        on_share(docker, run);
    } else if (msg->event == SBX_INIT_FAILED && is_alive) {
        fail(docker, run, msg->stage == SBX_STAGE_NONE ? SBX_STAGE_INIT : msg->stage, msg->error);
    } else if (msg->event == SBX_INIT_EXITED && run->state == SBX_DOCKER_RUNNING) {
        run->facts.has_leader = true;
        run->facts.wait_status = msg->wait_status;
        run->leftovers = msg->leftovers;
        run->end_ns = cr_clock_mono_ns();
        sbx_docker_run_kill(docker, run, run->end_ns);
    } else if (is_alive) {
        fail(docker, run, SBX_STAGE_INIT, EPROTO);
    }
}

void sbx_docker_run_on_control(struct sbx_docker *docker, struct sbx_docker_run *run)
{
    struct sbx_init_msg msg;
    ssize_t n;

    if (run->relay.control_fd < 0)
        return; /* closed earlier in this round of events */
    n = recv(run->relay.control_fd, &msg, sizeof(msg), MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n == sizeof(msg) && is_plausible(&msg)) {
        on_init_message(docker, run, &msg);
        return;
    }
    /* Its end: the pidfd tells the rest. */
    (void)epoll_ctl(docker->epoll_fd, EPOLL_CTL_DEL, run->relay.control_fd, NULL);
    if (n != 0 && run->state != SBX_DOCKER_KILLING)
        fail(docker, run, SBX_STAGE_INIT, EPROTO);
}

/* Its last words may have come in the same round. */
static void read_last_words(struct sbx_docker *docker, struct sbx_docker_run *run)
{
    for (enum sbx_docker_state before = SBX_DOCKER_FREE; before != run->state;) {
        before = run->state;
        if (run->state == SBX_DOCKER_PREPARING || run->state == SBX_DOCKER_RUNNING)
            sbx_docker_run_on_control(docker, run);
    }
}

/* Neither we nor the program ended it: then memory did, or somebody from outside. */
static void note_loss(struct sbx_docker *docker, struct sbx_docker_run *run)
{
    if (run->state != SBX_DOCKER_PREPARING && run->state != SBX_DOCKER_RUNNING)
        return;
    check_memory(run);
    run->is_lost = run->facts.event_count == 0;
    if (run->is_lost)
        cr_log_warn("a box ended and nobody here ended it run=%" PRIu64 " container=%.12s", run->id,
                    run->container);
    sbx_docker_run_kill(docker, run, cr_clock_mono_ns());
}

/* The end of both comes in any order. */
static void finish_when_dead(struct sbx_docker *docker, struct sbx_docker_run *run)
{
    if (run->state != SBX_DOCKER_KILLING || run->box_pidfd >= 0 || run->relay.pid >= 0)
        return;
    sbx_docker_run_on_empty(docker, run);
}

void sbx_docker_run_on_box(struct sbx_docker *docker, struct sbx_docker_run *run)
{
    if (run->box_pidfd < 0)
        return;
    read_last_words(docker, run);
    note_loss(docker, run);
    cr_close_fd(&run->box_pidfd);
    run->dead_ns = cr_clock_mono_ns();
    run->deadline_ns = run->dead_ns + FLUSH_DEADLINE_NS;
    finish_when_dead(docker, run);
}

void sbx_docker_run_on_relay(struct sbx_docker *docker, struct sbx_docker_run *run)
{
    if (run->relay.pid < 0)
        return;
    read_last_words(docker, run);
    note_loss(docker, run);
    sbx_relay_reap(&run->relay);
    finish_when_dead(docker, run);
}

void sbx_docker_run_on_oom(struct sbx_docker *docker, struct sbx_docker_run *run)
{
    uint64_t count = 0;
    int64_t now_ns = cr_clock_mono_ns();

    /* v1: resets the eventfd. v2: reading the counter through the same fd arms it again. */
    if (read(run->group.event_fd, &count, sizeof(count)) < 0 && errno != EAGAIN)
        cr_log_debug("cannot read an OOM event run=%" PRIu64, run->id); /* the group is gone */
    if (run->state != SBX_DOCKER_RUNNING)
        return; /* the counters at the end tell */
    check_limits(docker, run, now_ns);
    /* v1 tells before the victim is chosen. */
    if (run->state == SBX_DOCKER_RUNNING) {
        run->oom_until_ns = now_ns + OOM_WATCH_NS;
        run->oom_poll_ns = now_ns + OOM_POLL_NS;
    }
}

/* ---- time ---- */

static void on_kill_time(struct sbx_docker_run *run, int64_t now_ns)
{
    run->deadline_ns = now_ns + KILL_DEADLINE_NS;
    if (run->box_pidfd < 0) {
        sbx_relay_kill(&run->relay);
        return;
    }
    cr_log_error("a killed box does not end run=%" PRIu64 " container=%.12s", run->id,
                 run->container);
    (void)pidfd_send_signal(run->box_pidfd, SIGKILL, NULL, 0);
}

void sbx_docker_run_on_time(struct sbx_docker *docker, struct sbx_docker_run *run, int64_t now_ns)
{
    switch (run->state) {
    case SBX_DOCKER_ATTACHING:
        cr_log_error("the docker engine does not attach in time run=%" PRIu64, run->id);
        run->facts.stage = SBX_STAGE_CLONE;
        run->facts.error = ETIMEDOUT;
        sbx_docker_run_finish(docker, run);
        break;
    case SBX_DOCKER_PREPARING:
        cr_log_error("sandbox-init is not ready in time run=%" PRIu64, run->id);
        fail(docker, run, SBX_STAGE_INIT, ETIMEDOUT);
        break;
    case SBX_DOCKER_RUNNING:
        check_limits(docker, run, now_ns);
        run->oom_poll_ns = now_ns + OOM_POLL_NS;
        if (run->oom_until_ns <= now_ns)
            run->oom_until_ns = 0;
        break;
    case SBX_DOCKER_KILLING:
        on_kill_time(run, now_ns);
        break;
    case SBX_DOCKER_DRAINING:
        sbx_docker_run_on_drain_time(docker, run, now_ns);
        break;
    default:
        break;
    }
}

int64_t sbx_docker_run_next_ns(const struct sbx_docker_run *run)
{
    int64_t next = run->deadline_ns;

    if (run->state == SBX_DOCKER_FREE)
        return INT64_MAX;
    if (run->poll_ns < next)
        next = run->poll_ns;
    if (run->oom_until_ns > 0 && run->oom_poll_ns < next)
        next = run->oom_poll_ns;
    return next;
}

/* ---- the front ---- */

void sbx_docker_run_on_cancel(struct sbx_docker *docker, struct sbx_docker_run *run)
{
    int64_t now_ns = cr_clock_mono_ns();

    if (run->state == SBX_DOCKER_RUNNING)
        check_limits(docker, run, now_ns);
    if (run->state > SBX_DOCKER_RUNNING)
        return; /* it is over: whatever ended it came first */
    sbx_facts_add(&run->facts, SBX_VERDICT_CANCELLED, 0);
    /* Before that a call is in flight, and its answer ends the run. */
    if (run->state >= SBX_DOCKER_PREPARING)
        sbx_docker_run_kill(docker, run, now_ns);
}

void sbx_docker_run_on_output_limit(struct sbx_docker *docker, struct sbx_docker_run *run,
                                    const struct sbx_msg_output_limit *msg)
{
    if (run->state != SBX_DOCKER_RUNNING)
        return;
    check_memory(run); /* it wins a tie, the clocks do not */
    sbx_facts_add(&run->facts, SBX_VERDICT_OUTPUT_LIMIT, msg->observed);
    sbx_docker_run_kill(docker, run, cr_clock_mono_ns());
}

void sbx_docker_run_abandon(struct sbx_docker *docker, struct sbx_docker_run *run)
{
    if (run->state < SBX_DOCKER_PREPARING) {
        sbx_facts_add(&run->facts, SBX_VERDICT_CANCELLED, 0);
        if (docker->is_engine_lost)
            sbx_docker_run_finish(docker, run); /* no answer comes */
    } else if (run->state == SBX_DOCKER_PREPARING || run->state == SBX_DOCKER_RUNNING) {
        sbx_facts_add(&run->facts, SBX_VERDICT_CANCELLED, 0);
        sbx_docker_run_kill(docker, run, cr_clock_mono_ns());
    } else if (run->state == SBX_DOCKER_DRAINING) {
        sbx_docker_run_abandon_drain(docker, run);
    }
}
