/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/supervisor/supervisor.h"

#include "common/auto.h"
#include "common/clock.h"
#include "common/err.h"
#include "common/listen.h"
#include "common/log.h"
#include "common/notify.h"
#include "common/patience.h"
#include "sandboxd/supervisor/child.h"
#include "sandboxd/supervisor/child_args.h"
#include "sandboxd/supervisor/choice.h"
#include "sandboxd/supervisor/handover.h"
#include "sandboxd/supervisor/restart.h"
#include "sandboxd/supervisor/settings.h"
#include "sandboxd/supervisor/spawn.h"
#include "sandboxd/wire/lifeline.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>

#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>

#define SERVING "READY=1\nSTATUS=serving"
#define BACKEND_STOP_MS 24000
#define FRONT_STOP_EXTRA_MS 10000 /* beyond the grace */
#define KILL_WAIT_MS 10000
#define FILES_LOOK_MS 5000 /* between two looks whether certificates have changed */

enum phase {
    PHASE_RUNNING,
    PHASE_DRAINING, /* the front lets runs in flight finish */
    PHASE_STOPPING, /* the backend cleans up */
    PHASE_KILLING,  /* somebody did not end in time */
    PHASE_STOPPED,
};

struct supervisor {
    const struct sbx_settings *settings;
    const struct cr_notify *notify; /* borrowed */
    int64_t alive_at_ns;            /* when to tell the manager so; 0: never */
    int64_t pulse_at_ns;            /* when to look whether the children turn */
    bool is_turning;                /* they did, at the last look */
    struct sbx_handover handover;
    int64_t look_at_ns; /* when to look whether their files have changed; 0: there are none */
    int signal_fd;
    struct sbx_child backend;
    struct sbx_child front;
    struct sbx_restart restart;
    enum phase phase;
    bool is_docker;      /* which backend, decided once */
    bool was_ready;      /* once: from then on children are restarted */
    bool has_failed;     /* the exit status */
    int64_t deadline_ns; /* of the phase, or of a backend without its front; 0: none */
    int64_t start_at_ns; /* when missing children are started; 0: not waiting */
};

/* ---- starting ---- */

static int open_signals(struct supervisor *supervisor, struct cr_err *err)
{
    sigset_t set;

    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGCHLD);
    (void)sigaddset(&set, SIGTERM);
    (void)sigaddset(&set, SIGINT);
    (void)sigaddset(&set, SIGHUP);
    (void)sigaddset(&set, SIGPIPE);
    (void)pthread_sigmask(SIG_BLOCK, &set, NULL);
    (void)sigdelset(&set, SIGPIPE);
    supervisor->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return supervisor->signal_fd < 0 ? cr_err_sys(err, errno, "watch signals") : 0;
}

static int start_backend(struct supervisor *supervisor, int wire_fd, struct cr_err *err)
{
    struct sbx_child_args args = {0};
    int r = supervisor->is_docker
                ? sbx_docker_args_make(supervisor->settings, supervisor->was_ready, &args)
                : sbx_native_args_make(supervisor->settings, &args);

    r = r < 0 ? cr_err_set(err, ENOMEM, "out of memory for the arguments of the backend")
              : sbx_spawn_backend(&supervisor->backend, &args, wire_fd,
                                  supervisor->handover.runtimes_fd, err);
    sbx_child_args_done(&args);
    return r;
}

static int start_front(struct supervisor *supervisor, int wire_fd, struct cr_err *err)
{
    const struct sbx_handover *handover = &supervisor->handover;
    const struct sbx_front_fds fds = sbx_handover_front_fds(handover);
    struct sbx_child_args args = {0};
    int r = sbx_front_args_make(supervisor->settings, handover->listen_count,
                                handover->metrics.fd >= 0, &args);

    r = r < 0 ? cr_err_set(err, ENOMEM, "out of memory for the arguments of sandboxd-front")
              : sbx_spawn_front(&supervisor->front, &args, wire_fd, &fds, err);
    sbx_child_args_done(&args);
    return r;
}

/* Starts what is missing: the backend, and the front, which else gets the new wire sent. */
static int start_children(struct supervisor *supervisor, struct cr_err *err)
{
    CR_AUTO_CLOSE int backend_end = -1;
    CR_AUTO_CLOSE int front_end = -1;
    int pair[2];
    int r = sbx_spawn_pair(pair, err);

    if (r < 0)
        return r;
    backend_end = pair[0];
    front_end = pair[1];
    r = start_backend(supervisor, backend_end, err);
    if (r < 0)
        return r;
    if (supervisor->front.pid == 0)
        return start_front(supervisor, front_end, err);
    if (sbx_lifeline_send(supervisor->front.lifeline_fd, SBX_LIFELINE_WIRE, 0, front_end) < 0) {
        /* It is just ending, or stands still: the backend sees the end of its wire, then both
         * start anew. */
        cr_log_warn("the front does not take its new backend, ending both");
        sbx_child_kill(&supervisor->front, SIGKILL);
    }
    return 0;
}

/* ---- stopping ---- */

static void set_deadline(struct supervisor *supervisor, int64_t ms)
{
    supervisor->deadline_ns = cr_clock_mono_ns() + ms * CR_NS_PER_MS;
}

/* The backend kills every run when its lifeline ends, removes what it made, and ends. */
static void stop_backend(struct supervisor *supervisor)
{
    supervisor->phase = PHASE_STOPPING;
    cr_close_fd(&supervisor->backend.lifeline_fd);
    set_deadline(supervisor, cr_patience_ms(BACKEND_STOP_MS));
}

static void begin_stop(struct supervisor *supervisor)
{
    supervisor->phase = PHASE_DRAINING;
    supervisor->start_at_ns = 0;
    set_deadline(supervisor, (int64_t)supervisor->settings->drain_delay_ms +
                                 (int64_t)supervisor->settings->grace_ms +
                                 cr_patience_ms(FRONT_STOP_EXTRA_MS));
    cr_notify_stopping(supervisor->notify, "runs in flight go on",
                       (int64_t)supervisor->settings->drain_delay_ms +
                           (int64_t)supervisor->settings->grace_ms +
                           cr_patience_ms(FRONT_STOP_EXTRA_MS + BACKEND_STOP_MS + KILL_WAIT_MS));
    sbx_child_kill(&supervisor->front, SIGTERM);
}

/* Without grace, but the backend still gets the time to clean up. */
static void hurry_stop(struct supervisor *supervisor)
{
    sbx_child_kill(&supervisor->front, SIGKILL);
    if (supervisor->phase < PHASE_STOPPING)
        stop_backend(supervisor);
}

static void on_stop_signal(struct supervisor *supervisor, uint32_t number)
{
    if (supervisor->phase == PHASE_RUNNING) {
        cr_log_info("stopping signal=%s", number == SIGINT ? "SIGINT" : "SIGTERM");
        begin_stop(supervisor);
    } else {
        cr_log_warn("second signal, stopping now");
        hurry_stop(supervisor);
    }
}

/* Moves on when what the phase waits for has happened. */
static void advance(struct supervisor *supervisor)
{
    if (supervisor->phase == PHASE_DRAINING && supervisor->front.pid == 0)
        stop_backend(supervisor);
    if (supervisor->phase >= PHASE_STOPPING && supervisor->front.pid == 0 &&
        supervisor->backend.pid == 0)
        supervisor->phase = PHASE_STOPPED;
}

/* ---- children that end ---- */

static void fail(struct supervisor *supervisor)
{
    supervisor->has_failed = true;
    begin_stop(supervisor);
}

static void plan_restart(struct supervisor *supervisor, const struct sbx_child *child)
{
    int64_t lived_ms = (cr_clock_mono_ns() - child->started_ns) / CR_NS_PER_MS;
    int delay_ms = sbx_restart_delay_ms(&supervisor->restart, lived_ms);

    if (!supervisor->was_ready) {
        cr_log_error("%s ended before the service was ready; the lines above say why", child->name);
        fail(supervisor);
    } else if (delay_ms < 0) {
        cr_log_error("%s ends again and again, giving up", child->name);
        fail(supervisor);
    } else {
        cr_log_warn("restarting %s delay_ms=%d", child->name, delay_ms);
        cr_notify_send(supervisor->notify, "STATUS=a process of it is started anew");
        supervisor->start_at_ns = cr_clock_mono_ns() + delay_ms * CR_NS_PER_MS;
    }
}

static void on_child_end(struct supervisor *supervisor, struct sbx_child *child, int status)
{
    const bool is_clean = WIFEXITED(status) && WEXITSTATUS(status) == 0;

    if (!is_clean || supervisor->phase == PHASE_RUNNING)
        sbx_child_log_end(child, status);
    child->pid = 0;
    cr_close_fd(&child->lifeline_fd);
    if (supervisor->phase != PHASE_RUNNING) {
        supervisor->has_failed = supervisor->has_failed || !is_clean;
        return;
    }
    if (child == &supervisor->front)
        sbx_secrets_front_ended(&supervisor->handover.secrets);
    if (child == &supervisor->front && supervisor->backend.pid > 0) {
        /* The backend sees the end of the wire, cleans up and ends; then both start anew. */
        set_deadline(supervisor, cr_patience_ms(BACKEND_STOP_MS));
        return;
    }
    supervisor->deadline_ns = 0;
    plan_restart(supervisor, child);
}

static void reap(struct supervisor *supervisor)
{
    int status;
    pid_t pid;

    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        if (pid == supervisor->backend.pid)
            on_child_end(supervisor, &supervisor->backend, status);
        else if (pid == supervisor->front.pid)
            on_child_end(supervisor, &supervisor->front, status);
    }
}

/* ---- events ---- */

/* One that is not ready yet, or goes, has nothing to say of it. */
static void reload(struct supervisor *supervisor)
{
    bool must_tell = supervisor->was_ready && supervisor->phase == PHASE_RUNNING;

    if (must_tell)
        cr_notify_reloading(supervisor->notify);
    sbx_secrets_reload(supervisor->settings, &supervisor->handover.secrets, &supervisor->front,
                       true);
    if (must_tell)
        cr_notify_send(supervisor->notify, SERVING);
}

static void read_signals(struct supervisor *supervisor)
{
    struct signalfd_siginfo info;

    while (read(supervisor->signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
        if (info.ssi_signo == SIGCHLD)
            reap(supervisor);
        else if (info.ssi_signo == SIGHUP)
            reload(supervisor);
        else
            on_stop_signal(supervisor, info.ssi_signo);
    }
}

static void log_ready(const struct supervisor *supervisor, uint32_t slots)
{
    const struct sbx_settings *settings = supervisor->settings;
    const struct sbx_handover *handover = &supervisor->handover;
    const struct cr_listen *last = &handover->listens[handover->listen_count - 1];
    const char *backend = supervisor->is_docker ? "docker" : "native";

    if (settings->listen && *settings->listen)
        cr_log_info("sandboxd ready socket=%s listen=%s port=%u backend=%s slots=%u",
                    settings->socket, settings->listen, last->port, backend, slots);
    else
        cr_log_info("sandboxd ready socket=%s backend=%s slots=%u", settings->socket, backend,
                    slots);
    if (handover->health.fd >= 0)
        cr_log_info("health address=%s port=%u", settings->health_listen, handover->health.port);
    if (handover->metrics.fd >= 0)
        cr_log_info("metrics address=%s port=%u", settings->metrics, handover->metrics.port);
}

static void read_front(struct supervisor *supervisor)
{
    struct sbx_lifeline_msg msg;
    int fd = -1;
    int r = sbx_lifeline_receive(supervisor->front.lifeline_fd, &msg, &fd);

    if (fd >= 0)
        (void)close(fd); /* the front has nothing to give */
    if (r == 0 && msg.type == SBX_LIFELINE_READY) {
        supervisor->was_ready = true;
        log_ready(supervisor, msg.value);
        cr_notify_send(supervisor->notify, SERVING);
    } else if (r == 0 && msg.type == SBX_LIFELINE_TURNS) {
        sbx_pulse_hear(&supervisor->front.pulse);
    } else if (r == 0 && msg.type == SBX_LIFELINE_TAKEN) {
        sbx_secrets_taken(&supervisor->handover.secrets, msg.value);
    } else if (r != -EAGAIN) {
        cr_close_fd(&supervisor->front.lifeline_fd); /* SIGCHLD follows, or the front is broken */
        if (r != -EPIPE)
            sbx_child_kill(&supervisor->front, SIGKILL);
    }
}

/* It says that it turns and nothing else; what is no message of ours is no sign of life. */
static void read_backend(struct supervisor *supervisor)
{
    struct sbx_lifeline_msg msg;
    int fd = -1;
    int r = sbx_lifeline_receive(supervisor->backend.lifeline_fd, &msg, &fd);

    if (fd >= 0)
        (void)close(fd);
    if (r == 0 && msg.type == SBX_LIFELINE_TURNS)
        sbx_pulse_hear(&supervisor->backend.pulse);
    else if (r == -EPIPE)
        cr_close_fd(&supervisor->backend.lifeline_fd); /* SIGCHLD follows */
}

/* While it stops, deadlines of its own watch the children. */
static void look_at_children(struct supervisor *supervisor)
{
    bool is_front = supervisor->phase != PHASE_RUNNING || sbx_child_is_turning(&supervisor->front);
    bool is_backend =
        supervisor->phase != PHASE_RUNNING || sbx_child_is_turning(&supervisor->backend);

    supervisor->is_turning = is_front && is_backend;
}

static void on_deadline(struct supervisor *supervisor)
{
    supervisor->deadline_ns = 0;
    if (supervisor->phase == PHASE_RUNNING) {
        cr_log_error("%s does not end without its front, killing it", supervisor->backend.name);
        sbx_child_kill(&supervisor->backend, SIGKILL);
        return;
    }
    if (supervisor->phase == PHASE_DRAINING) {
        cr_log_error("sandboxd-front does not end, killing it");
        hurry_stop(supervisor);
        return;
    }
    cr_log_error("a child does not end, killing it");
    supervisor->has_failed = true;
    supervisor->phase = PHASE_KILLING;
    sbx_child_kill(&supervisor->front, SIGKILL);
    sbx_child_kill(&supervisor->backend, SIGKILL);
    set_deadline(supervisor, cr_patience_ms(KILL_WAIT_MS));
}

static void start_missing(struct supervisor *supervisor)
{
    struct cr_err err = CR_ERR_INIT;

    supervisor->start_at_ns = 0;
    if (start_children(supervisor, &err) < 0) {
        cr_log_error("restart: %s", err.text);
        fail(supervisor);
    }
}

static int64_t first_of(int64_t a, int64_t b)
{
    if (a == 0 || b == 0)
        return a + b;
    return a < b ? a : b;
}

/* Milliseconds until the next deadline, rounded up: at most a second. */
static int wait_ms(const struct supervisor *supervisor)
{
    int64_t next = first_of(first_of(supervisor->deadline_ns, supervisor->start_at_ns),
                            first_of(supervisor->look_at_ns, supervisor->alive_at_ns));
    int64_t left_ns = first_of(next, supervisor->pulse_at_ns) - cr_clock_mono_ns();

    return left_ns <= 0 ? 0 : (int)(left_ns / CR_NS_PER_MS) + 1;
}

static void run_timers(struct supervisor *supervisor)
{
    int64_t now = cr_clock_mono_ns();

    if (supervisor->start_at_ns != 0 && now >= supervisor->start_at_ns)
        start_missing(supervisor);
    if (supervisor->deadline_ns != 0 && now >= supervisor->deadline_ns)
        on_deadline(supervisor);
    if (now >= supervisor->pulse_at_ns) {
        supervisor->pulse_at_ns = now + CR_TURN_MS * CR_NS_PER_MS;
        look_at_children(supervisor);
    }
    if (supervisor->alive_at_ns != 0 && now >= supervisor->alive_at_ns) {
        supervisor->alive_at_ns = now + supervisor->notify->watchdog_ns;
        if (supervisor->is_turning)
            cr_notify_send(supervisor->notify, "WATCHDOG=1");
    }
    if (supervisor->look_at_ns != 0 && now >= supervisor->look_at_ns) {
        supervisor->look_at_ns = now + FILES_LOOK_MS * CR_NS_PER_MS;
        sbx_secrets_reload(supervisor->settings, &supervisor->handover.secrets, &supervisor->front,
                           false);
    }
}

static void loop(struct supervisor *supervisor)
{
    while (supervisor->phase != PHASE_STOPPED) {
        struct pollfd fds[] = {
            {.fd = supervisor->signal_fd, .events = POLLIN},
            {.fd = supervisor->front.lifeline_fd, .events = POLLIN}, /* -1 is ignored */
            {.fd = supervisor->backend.lifeline_fd, .events = POLLIN},
        };

        (void)poll(fds, CR_ARRAY_SIZE(fds), wait_ms(supervisor));
        if (fds[1].revents)
            read_front(supervisor);
        if (fds[2].revents)
            read_backend(supervisor);
        if (fds[0].revents)
            read_signals(supervisor);
        run_timers(supervisor);
        advance(supervisor);
    }
}

static int start(struct supervisor *supervisor, struct cr_err *err)
{
    int r = open_signals(supervisor, err);

    if (r == 0)
        r = sbx_handover_open_files(supervisor->settings, &supervisor->handover, err);
    if (supervisor->handover.secrets.tls_fd >= 0 || supervisor->handover.secrets.token_fd >= 0)
        supervisor->look_at_ns = cr_clock_mono_ns() + FILES_LOOK_MS * CR_NS_PER_MS;
    if (r == 0)
        r = sbx_choice_make(supervisor->settings, &supervisor->is_docker, err);
    if (r < 0)
        return r;
    supervisor->backend.name = supervisor->is_docker ? "sandboxd-docker" : "sandboxd-native";
    r = sbx_handover_open_ports(supervisor->settings, &supervisor->handover, err);
    return r == 0 ? start_children(supervisor, err) : r;
}

int sbx_supervisor_run(const struct sbx_settings *settings, const struct cr_notify *notify,
                       struct cr_err *err)
{
    struct supervisor supervisor = {
        .settings = settings,
        .handover = SBX_HANDOVER_INIT,
        .notify = notify,
        .alive_at_ns = notify->watchdog_ns > 0 ? cr_clock_mono_ns() : 0,
        .pulse_at_ns = cr_clock_mono_ns(),
        .is_turning = true,
        .signal_fd = -1,
        .backend = {.name = "sandboxd-native", .lifeline_fd = -1},
        .front = {.name = "sandboxd-front", .lifeline_fd = -1},
    };
    int r = start(&supervisor, err);

    if (r < 0 && supervisor.backend.pid > 0) {
        cr_log_error("cannot start: %s", err->text);
        fail(&supervisor);
    }
    if (r == 0 || supervisor.backend.pid > 0)
        loop(&supervisor);
    sbx_handover_done(&supervisor.handover);
    cr_close_fd(&supervisor.signal_fd);
    if (r == 0 && supervisor.has_failed)
        return cr_err_set(err, EIO, "stopped after a failure; the lines above say which");
    return r;
}
