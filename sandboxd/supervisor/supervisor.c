/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/supervisor/supervisor.h"

#include "common/auto.h"
#include "common/clock.h"
#include "common/err.h"
#include "common/listen.h"
#include "common/log.h"
#include "common/notify.h"
#include "common/patience.h"
#include "common/unconst.h"
#include "sandboxd/supervisor/audit_file.h"
#include "sandboxd/supervisor/child.h"
#include "sandboxd/supervisor/child_args.h"
#include "sandboxd/supervisor/choice.h"
#include "sandboxd/supervisor/restart.h"
#include "sandboxd/supervisor/runtime_files.h"
#include "sandboxd/supervisor/secrets.h"
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

#define LISTEN_MAX SBX_SPAWN_LISTEN_MAX
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
    struct cr_listen listens[LISTEN_MAX];
    size_t listen_count;
    struct cr_listen health;
    const struct cr_notify *notify; /* borrowed */
    int64_t alive_at_ns;            /* when to tell the manager so; 0: never */
    int64_t pulse_at_ns;            /* when to look whether the children turn */
    bool is_turning;                /* they did, at the last look */
    struct sbx_secrets secrets;
    struct cr_listen metrics; /* its fd is -1: none */
    int audit_fd;
    int runtimes_fd;
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

static int open_listens(struct supervisor *supervisor, struct cr_err *err)
{
    const struct sbx_settings *settings = supervisor->settings;
    char address[256];
    int r = 0;

    if (settings->socket && *settings->socket) {
        struct cr_listen *listen = &supervisor->listens[supervisor->listen_count];

        (void)snprintf(address, sizeof(address), "unix:%s", settings->socket);
        r = cr_listen_open(address, (uid_t)settings->socket_owner, listen, err);
        if (r < 0)
            return cr_err_wrap(err, "--socket");
        supervisor->listen_count++;
    }
    if (settings->listen && *settings->listen) {
        struct cr_listen *listen = &supervisor->listens[supervisor->listen_count];

        r = cr_listen_open(settings->listen, (uid_t)-1, listen, err);
        if (r < 0)
            return cr_err_wrap(err, "--listen");
        supervisor->listen_count++;
    }
    if (settings->health_listen && *settings->health_listen) {
        r = cr_listen_open(settings->health_listen, (uid_t)-1, &supervisor->health, err);
        if (r < 0)
            return cr_err_wrap(err, "--health-listen");
    }
    return r;
}

/*
 * A second service on one host would else not start for want of a port that
 * nobody asked for; a port that was asked for is as binding as any other.
 */
static int open_metrics(struct supervisor *supervisor, struct cr_err *err)
{
    const char *address = supervisor->settings->metrics;
    int r;

    if (!address || !*address)
        return 0;
    r = cr_listen_open(address, (uid_t)-1, &supervisor->metrics, err);
    if (r == -EADDRINUSE && strcmp(address, SBX_METRICS_STANDARD) == 0) {
        cr_log_warn("the port of the metrics is taken, going without them address=%s", address);
        return 0;
    }
    return r < 0 ? cr_err_wrap(err, "--metrics") : 0;
}

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

    r = r < 0
            ? cr_err_set(err, ENOMEM, "out of memory for the arguments of the backend")
            : sbx_spawn_backend(&supervisor->backend, &args, wire_fd, supervisor->runtimes_fd, err);
    sbx_child_args_done(&args);
    return r;
}

static int start_front(struct supervisor *supervisor, int wire_fd, struct cr_err *err)
{
    struct sbx_child_args args = {0};
    struct sbx_front_fds fds = {.token = supervisor->secrets.token_fd,
                                .audit = supervisor->audit_fd,
                                .runtimes = supervisor->runtimes_fd,
                                .tls = supervisor->secrets.tls_fd,
                                .health = supervisor->health.fd,
                                .listen_count = supervisor->listen_count,
                                .metrics = supervisor->metrics.fd};
    int r = sbx_front_args_make(supervisor->settings, supervisor->listen_count,
                                supervisor->metrics.fd >= 0, &args);

    for (size_t i = 0; i < supervisor->listen_count; i++)
        fds.listens[i] = supervisor->listens[i].fd;
    r = r < 0 ? cr_err_set(err, ENOMEM, "out of memory for the arguments of sandboxd-front")
              : sbx_spawn_front(&supervisor->front, &args, wire_fd, &fds, err);
    sbx_child_args_done(&args);
    return r;
}

static void kill_child(const struct sbx_child *child, int signal_number)
{
    if (child->pid > 0)
        (void)kill(child->pid, signal_number);
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
        kill_child(&supervisor->front, SIGKILL);
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
    kill_child(&supervisor->front, SIGTERM);
}

/* Without grace, but the backend still gets the time to clean up. */
static void hurry_stop(struct supervisor *supervisor)
{
    kill_child(&supervisor->front, SIGKILL);
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

static void log_child_end(const struct supervisor *supervisor, const struct sbx_child *child,
                          int status)
{
    bool is_clean = WIFEXITED(status) && WEXITSTATUS(status) == 0;

    if (is_clean && supervisor->phase != PHASE_RUNNING)
        return;
    if (WIFSIGNALED(status))
        cr_log_warn("%s was killed pid=%d signal=%d", child->name, (int)child->pid,
                    WTERMSIG(status));
    else
        cr_log_warn("%s ended pid=%d status=%d", child->name, (int)child->pid, WEXITSTATUS(status));
}

static void on_child_end(struct supervisor *supervisor, struct sbx_child *child, int status)
{
    log_child_end(supervisor, child, status);
    child->pid = 0;
    cr_close_fd(&child->lifeline_fd);
    if (supervisor->phase != PHASE_RUNNING) {
        bool is_clean = WIFEXITED(status) && WEXITSTATUS(status) == 0;

        supervisor->has_failed = supervisor->has_failed || !is_clean;
        return;
    }
    if (child == &supervisor->front)
        sbx_secrets_front_ended(&supervisor->secrets);
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
    sbx_secrets_reload(supervisor->settings, &supervisor->secrets, &supervisor->front, true);
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
    const struct cr_listen *last = &supervisor->listens[supervisor->listen_count - 1];
    const char *backend = supervisor->is_docker ? "docker" : "native";

    if (settings->listen && *settings->listen)
        cr_log_info("sandboxd ready socket=%s listen=%s port=%u backend=%s slots=%u",
                    settings->socket, settings->listen, last->port, backend, slots);
    else
        cr_log_info("sandboxd ready socket=%s backend=%s slots=%u", settings->socket, backend,
                    slots);
    if (supervisor->health.fd >= 0)
        cr_log_info("health address=%s port=%u", settings->health_listen, supervisor->health.port);
    if (supervisor->metrics.fd >= 0)
        cr_log_info("metrics address=%s port=%u", settings->metrics, supervisor->metrics.port);
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
        sbx_secrets_taken(&supervisor->secrets, msg.value);
    } else if (r != -EAGAIN) {
        cr_close_fd(&supervisor->front.lifeline_fd); /* SIGCHLD follows, or the front is broken */
        if (r != -EPIPE)
            kill_child(&supervisor->front, SIGKILL);
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

/* By a signal: whoever sent it will know why. */
static bool is_stopped(const struct sbx_child *child)
{
    siginfo_t info = {.si_pid = 0};

    return waitid(P_PID, (id_t)child->pid, &info, WSTOPPED | WNOHANG | WNOWAIT) == 0 &&
           info.si_pid == child->pid;
}

/* One that stands still is of no use to anybody, and its end is a thing that all others know how to
 * deal with. */
static bool is_turning(struct sbx_child *child)
{
    enum sbx_pulse_state before = child->pulse.state;
    enum sbx_pulse_state state = child->pid > 0 ? sbx_pulse_look(&child->pulse) : SBX_PULSE_WELL;

    if (before == SBX_PULSE_WELL && state != SBX_PULSE_WELL)
        cr_log_warn("%s says nothing pid=%d", child->name, (int)child->pid);
    if (state == SBX_PULSE_DEAD && !is_stopped(child)) {
        cr_log_error("%s stands still, killing it pid=%d", child->name, (int)child->pid);
        kill_child(child, SIGKILL);
    }
    return state == SBX_PULSE_WELL;
}

/* While it stops, deadlines of its own watch the children. */
static void look_at_children(struct supervisor *supervisor)
{
    bool is_front = supervisor->phase != PHASE_RUNNING || is_turning(&supervisor->front);
    bool is_backend = supervisor->phase != PHASE_RUNNING || is_turning(&supervisor->backend);

    supervisor->is_turning = is_front && is_backend;
}

static void on_deadline(struct supervisor *supervisor)
{
    supervisor->deadline_ns = 0;
    if (supervisor->phase == PHASE_RUNNING) {
        cr_log_error("%s does not end without its front, killing it", supervisor->backend.name);
        kill_child(&supervisor->backend, SIGKILL);
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
    kill_child(&supervisor->front, SIGKILL);
    kill_child(&supervisor->backend, SIGKILL);
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
        sbx_secrets_reload(supervisor->settings, &supervisor->secrets, &supervisor->front, false);
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

/* Opens the file of a setting, when there is one. */
static int open_file(const char *path, int (*open_it)(const char *path, struct cr_err *err),
                     int *ret_fd, struct cr_err *err)
{
    int fd;

    if (!path || !*path)
        return 0;
    fd = open_it(path, err);
    if (fd < 0)
        return fd;
    *ret_fd = fd;
    return 0;
}

/* What the children cannot open themselves, or must not read at different times. */
static int open_files(struct supervisor *supervisor, struct cr_err *err)
{
    const struct sbx_settings *settings = supervisor->settings;
    int r = sbx_secrets_open(settings, &supervisor->secrets, err);

    if (supervisor->secrets.tls_fd >= 0 || supervisor->secrets.token_fd >= 0)
        supervisor->look_at_ns = cr_clock_mono_ns() + FILES_LOOK_MS * CR_NS_PER_MS;
    if (r == 0)
        r = open_file(settings->audit_log, sbx_audit_file_open, &supervisor->audit_fd, err);
    if (r < 0 || !sbx_settings_has_runtimes(settings))
        return r;
    r = sbx_runtime_files_open(settings->runtimes_dir, settings->state_dir, err);
    if (r < 0)
        return r;
    supervisor->runtimes_fd = r;
    return 0;
}

static int start(struct supervisor *supervisor, struct cr_err *err)
{
    int r = open_signals(supervisor, err);

    if (r == 0)
        r = open_files(supervisor, err);
    if (r == 0)
        r = sbx_choice_make(supervisor->settings, &supervisor->is_docker, err);
    if (r < 0)
        return r;
    supervisor->backend.name = supervisor->is_docker ? "sandboxd-docker" : "sandboxd-native";
    r = open_listens(supervisor, err);
    if (r == 0)
        r = open_metrics(supervisor, err);
    return r == 0 ? start_children(supervisor, err) : r;
}

int sbx_supervisor_run(const struct sbx_settings *settings, const struct cr_notify *notify,
                       struct cr_err *err)
{
    struct supervisor supervisor = {
        .settings = settings,
        .listens = {CR_LISTEN_INIT, CR_LISTEN_INIT},
        .health = CR_LISTEN_INIT,
        .notify = notify,
        .alive_at_ns = notify->watchdog_ns > 0 ? cr_clock_mono_ns() : 0,
        .pulse_at_ns = cr_clock_mono_ns(),
        .is_turning = true,
        .secrets = SBX_SECRETS_INIT,
        .metrics = CR_LISTEN_INIT,
        .audit_fd = -1,
        .runtimes_fd = -1,
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
    for (size_t i = 0; i < supervisor.listen_count; i++)
        cr_listen_close(&supervisor.listens[i]);
    cr_listen_close(&supervisor.health);
    sbx_secrets_done(&supervisor.secrets);
    cr_listen_close(&supervisor.metrics);
    cr_close_fd(&supervisor.audit_fd);
    cr_close_fd(&supervisor.runtimes_fd);
    cr_close_fd(&supervisor.signal_fd);
    if (r == 0 && supervisor.has_failed)
        return cr_err_set(err, EIO, "stopped after a failure; the lines above say which");
    return r;
}
