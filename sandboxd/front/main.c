/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/clock.h"
#include "common/config.h"
#include "common/err.h"
#include "common/log.h"
#include "common/metrics.h"
#include "common/patience.h"
#include "common/privilege.h"
#include "common/slice.h"
#include "common/tls_files.h"
#include "common/turns.h"
#include "proto/descriptor_set.h"
#include "rpc/callers.h"
#include "rpc/health_port.h"
#include "rpc/listener.h"
#include "rpc/server.h"
#include "rpc/tokens.h"
#include "sandboxd/front/audit.h"
#include "sandboxd/front/auth.h"
#include "sandboxd/front/backend.h"
#include "sandboxd/front/confine.h"
#include "sandboxd/front/probe.h"
#include "sandboxd/front/readiness.h"
#include "sandboxd/front/sandboxes.h"
#include "sandboxd/front/scrape.h"
#include "sandboxd/front/service.h"
#include "sandboxd/front/settings.h"
#include "sandboxd/front/tail.h"
#include "sandboxd/runtimes/table.h"
#include "tls/context.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/signalfd.h>

#define SERVICE_NAME "crisol.sandbox.v1.SandboxService"
#define PROBE_DEADLINE_MS 15000
#define STOP_DEADLINE_MS 5000
/* Looks at the threads of calls and of streams, and at what could not be done before. After so many
 * in a row without a sign of life the supervisor is not told any more that all is well, … */
#define LOOK_MS CR_TURN_MS
#define LOOKS_STILL 3
#define LOOKS_MAX 30 /* … and this is the end */
/* The backend sees the end of its own control socket, and its end gives every run a verdict. */
#define ORPHAN_GRACE_MS 2000

/* Everything that lives from start to stop. */
struct front {
    struct sbx_front_settings settings;
    struct sbx_auth auth;
    struct sbx_audit audit;
    struct sbx_backend *backend;
    struct sbx_sandboxes sandboxes;
    struct sbx_tails tails;
    struct sbx_service service;
    struct rpc_server *server;
    struct rpc_listener *listener;
    struct rpc_health_port *health; /* NULL: none */
    struct tls_context *tls;        /* NULL: TCP callers speak plain text */
    struct sbx_scrape *scrape;      /* NULL: none */
    int64_t started_ms;             /* since 1970 */
    atomic_bool is_serving;
    int signal_fd;
    int event_fd;
    atomic_bool is_up;       /* the backend said HELLO */
    atomic_bool is_orphaned; /* the supervisor is gone */
    atomic_uint generation;  /* of the backend; counts every coming and going */
    struct sbx_readiness readiness;
    uint32_t asked;     /* bit set of runtimes: for their version */
    int64_t look_at_ns; /* at the threads, not before */
    struct cr_turns_watch calls;
    struct cr_turns_watch streams;
};

/* ---- start ---- */

/* Before anything else: no line of gRPC, protobuf or our own parsing runs with privilege. */
static int drop_privileges(int argc, char **argv, struct cr_err *err)
{
    uint32_t uid;

    if (sbx_front_settings_user(argc, argv, &uid) < 0)
        return cr_err_set(err, EINVAL, "sandboxd-front is started by sandboxd, with --user=UID");
    return cr_privilege_drop(uid, uid, err);
}

/* Loses what it does not need, before the first thread and the first byte from outside. */
static int confine(struct cr_err *err)
{
    int landlock_abi = 0;
    int r = sbx_confine(&landlock_abi, err);

    if (r == 0 && landlock_abi == 0)
        cr_log_warn("this kernel has no Landlock; seccomp alone confines the front");
    return r;
}

/* A run has up to nine descriptors here and a connection four: the soft limit of 1,024 is soon
 * reached. */
static void raise_file_limit(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        return;
    limit.rlim_cur = limit.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &limit);
}

static int open_signals(struct front *front, struct cr_err *err)
{
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    sigset_t set;

    (void)sigaction(SIGPIPE, &ignore, NULL); /* a program that closes its stdin must not kill us */
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGTERM);
    (void)sigaddset(&set, SIGINT);
    (void)pthread_sigmask(SIG_BLOCK, &set, NULL); /* before any thread, so that all inherit it */
    front->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    front->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (front->signal_fd < 0 || front->event_fd < 0)
        return cr_err_sys(err, errno, "watch signals");
    return 0;
}

static int load_auth(struct front *front, struct cr_err *err)
{
    int r;

    if (sbx_auth_parse_uids(&front->auth, front->settings.allow_uids) < 0)
        return cr_err_set(err, EINVAL, "--allow-uids: '%s' is not a list of user ids",
                          front->settings.allow_uids);
    if (!front->settings.with_token)
        return 0;
    front->auth.tokens = rpc_tokens_new();
    if (!front->auth.tokens)
        return cr_err_set(err, ENOMEM, "out of memory for tokens");
    r = rpc_tokens_read(front->auth.tokens, SBX_FRONT_FD_TOKEN, err);
    (void)close(SBX_FRONT_FD_TOKEN);
    return r < 0 ? cr_err_wrap(err, "--token-file") : 0;
}

static int on_tokens(void *user, int fd)
{
    struct front *front = user;
    struct cr_err err = CR_ERR_INIT;
    int r = front->auth.tokens ? rpc_tokens_read(front->auth.tokens, fd, &err) : -ENOTSUP;

    (void)close(fd);
    if (r < 0)
        cr_log_error("new tokens: %s; keeping the old ones", err.text);
    else
        cr_log_info("new tokens in use count=%zu", rpc_tokens_count(front->auth.tokens));
    return r;
}

static void ring(struct front *front)
{
    const uint64_t one = 1;

    (void)!write(front->event_fd, &one, sizeof(one));
}

static void on_state(void *user, bool is_up)
{
    struct front *front = user;

    atomic_store(&front->is_up, is_up);
    atomic_fetch_add(&front->generation, 1);
    ring(front);
}

static void on_orphaned(void *user)
{
    struct front *front = user;

    atomic_store(&front->is_orphaned, true);
    ring(front);
}

static int take_audit(struct front *front, struct cr_err *err)
{
    if (!front->settings.with_audit)
        return 0;
    if (fcntl(SBX_FRONT_FD_AUDIT, F_SETFD, FD_CLOEXEC) < 0)
        return cr_err_sys(err, errno, "use descriptor 6");
    front->audit.fd = SBX_FRONT_FD_AUDIT;
    return 0;
}

static int take_runtimes(const struct front *front, struct cr_err *err)
{
    int r;

    if (!front->settings.with_runtimes)
        return 0;
    r = sbx_runtimes_load(SBX_FRONT_FD_RUNTIMES, err);
    (void)close(SBX_FRONT_FD_RUNTIMES);
    return r;
}

/* Takes the fd. On failure what was there stays. */
static int load_tls(struct front *front, int fd, struct cr_err *err)
{
    struct cr_tls_material material = {{NULL}};
    char summary[TLS_SUMMARY_MAX];
    int r = cr_tls_material_read(fd, &material, err);

    (void)close(fd);
    if (r == 0)
        r = tls_context_load(front->tls, &material, err);
    cr_tls_material_done(&material);
    if (r < 0)
        return r;
    tls_context_describe(front->tls, summary);
    cr_log_info("certificate in use %s", summary);
    return 0;
}

static int on_tls(void *user, int fd)
{
    struct front *front = user;
    struct cr_err err = CR_ERR_INIT;
    int r;

    if (!front->tls) {
        (void)close(fd);
        return -ENOTSUP;
    }
    r = load_tls(front, fd, &err);
    if (r < 0)
        cr_log_error("new certificates: %s; keeping the old ones", err.text);
    return r;
}

static int take_tls(struct front *front, struct cr_err *err)
{
    const struct tls_context_options options = {
        .protocol = "h2", .requires_protocol = true, .allowed_names = front->settings.tls_clients};
    int r;

    if (!front->settings.with_tls)
        return 0;
    r = tls_context_new(&options, &front->tls, err);
    if (r == 0)
        r = load_tls(front, SBX_FRONT_FD_TLS, err);
    return r < 0 ? cr_err_wrap(err, "--tls-cert") : 0;
}

static int start_backend(struct front *front, struct cr_err *err)
{
    struct sbx_backend_options options = {
        .wire_fd = SBX_FRONT_FD_WIRE,
        .control_fd = SBX_FRONT_FD_CONTROL,
        .queue_length = front->settings.queue,
        .audit = &front->audit,
        .sandboxes = &front->sandboxes,
        .tails = &front->tails,
        .user = front,
        .on_state = on_state,
        .on_orphaned = on_orphaned,
        .on_tls = on_tls,
        .on_tokens = on_tokens,
    };

    if (fcntl(SBX_FRONT_FD_WIRE, F_SETFD, FD_CLOEXEC) < 0 ||
        fcntl(SBX_FRONT_FD_CONTROL, F_SETFD, FD_CLOEXEC) < 0)
        return cr_err_sys(err, errno, "use descriptors 3 and 4");
    return sbx_backend_new(&options, &front->backend, err);
}

static int start_server(struct front *front, struct cr_err *err)
{
    static const struct rpc_method *const tables[] = {sbx_service_methods};
    struct rpc_server_options options = {
        .context = &front->service,
        .authorize = sbx_service_authorize,
        .max_streams = front->settings.limits.max_streams,
        .connection_age_s = front->settings.limits.age_s,
        .connection_grace_s = front->settings.limits.age_grace_s,
        .descriptor_set = crisol_descriptor_set,
        // cppcheck-suppress comparePointers ; two labels of one object
        .descriptor_set_size = (size_t)(crisol_descriptor_set_end - crisol_descriptor_set),
    };
    struct rpc_listener_options listener_options = {
        .edge = &front->settings.limits,
        .allowed_uids = front->auth.uids,
        .allowed_uid_count = front->auth.uid_count,
        .tls = front->tls,
    };
    int r = rpc_server_new(tables, CR_ARRAY_SIZE(tables), &options, &front->server, err);

    if (r == 0)
        r = rpc_server_start(front->server, err);
    if (r == 0)
        r = rpc_listener_new(front->server, &listener_options, &front->listener, err);
    for (uint64_t i = 0; r == 0 && i < front->settings.listen_count; i++)
        r = rpc_listener_take_fd(front->listener, SBX_FRONT_FD_LISTEN + (int)i, err);
    if (r == 0)
        r = rpc_listener_start(front->listener, err);
    if (r == 0 && front->settings.with_health)
        r = rpc_health_port_new("--health-listen", SBX_FRONT_FD_HEALTH, &front->health, err);
    return r;
}

/* ---- metrics ---- */

/* On the thread of the metrics. */
static void write_metrics(void *user, struct cr_metrics *metrics)
{
    static const struct cr_metrics_label version[CR_METRICS_LABELS_MAX] = {{"version", CR_VERSION}};
    struct front *front = user;

    cr_metrics_family(metrics, "sandboxd_build_info", "gauge", "Always 1; the label tells.");
    cr_metrics_count(metrics, version, 1);
    cr_metrics_family(metrics, "sandboxd_serving", "gauge",
                      "1 when a run has shown that sandboxd works and it takes calls.");
    cr_metrics_count(metrics, NULL, atomic_load(&front->is_serving));
    cr_metrics_process(metrics, front->started_ms);
    sbx_backend_write_metrics(front->backend, metrics);
    rpc_server_write_metrics(front->server, metrics);
}

static int start_metrics(struct front *front, struct cr_err *err)
{
    int fd = SBX_FRONT_FD_LISTEN + (int)front->settings.listen_count;

    if (!front->settings.with_metrics)
        return 0;
    if (fcntl(fd, F_SETFD, FD_CLOEXEC) < 0)
        return cr_err_sys(err, errno, "use the socket of the metrics");
    return sbx_scrape_new(fd, write_metrics, front, &front->scrape, err);
}

/* ---- readiness ---- */

static void set_serving(struct front *front, bool is_serving)
{
    atomic_store(&front->is_serving, is_serving);
    rpc_server_set_serving(front->server, "", is_serving);
    rpc_server_set_serving(front->server, SERVICE_NAME, is_serving);
    if (!front->health)
        return;
    rpc_health_port_set(front->health, SERVICE_NAME, is_serving);
    rpc_health_port_set_ready(front->health, is_serving);
}

static bool is_stopping(const struct front *front)
{
    struct pollfd signals = {.fd = front->signal_fd, .events = POLLIN};

    return atomic_load(&front->is_orphaned) || poll(&signals, 1, 0) > 0;
}

static bool is_idle(const struct front *front)
{
    struct sbx_backend_load load;

    sbx_backend_get_load(front->backend, &load);
    return load.running == 0 && load.waiting == 0;
}

/* Returns whether it turns, as far as can be told. */
static bool look_at_thread(struct cr_turns_watch *watch, uint64_t turns, const char *name)
{
    unsigned int looks = cr_turns_look(watch, turns);

    if (looks < LOOKS_MAX * cr_patience())
        return looks < LOOKS_STILL * cr_patience();
    cr_log_error("the thread of the %s stands still, ending looks=%u", name, looks);
    abort();
}

/*
 * A handler that does not return would leave every caller waiting, and this
 * process looking well: ends it, and the supervisor starts another. The
 * supervisor does so itself with one that it does not hear of.
 */
static void look_at_threads(void *user)
{
    struct front *front = user;
    int64_t now_ns = cr_clock_mono_ns();
    bool is_well;

    if (now_ns < front->look_at_ns)
        return;
    front->look_at_ns = now_ns + LOOK_MS * CR_NS_PER_MS;
    is_well = look_at_thread(&front->calls, rpc_server_turns(front->server), "calls");
    is_well =
        look_at_thread(&front->streams, sbx_backend_turns(front->backend), "streams") && is_well;
    if (is_well)
        sbx_backend_report_turns(front->backend);
}

static struct sbx_probe_wait probe_wait(struct front *front)
{
    return (struct sbx_probe_wait){cr_patience_ms(PROBE_DEADLINE_MS), look_at_threads, front};
}

/* Asks one runtime for its version, in a sandbox like everything else. False: not now. */
static bool learn_version(struct front *front, const struct sbx_runtime *runtime, uint32_t index)
{
    const char *const standard[] = {runtime->version_path, "--version", NULL};
    const char *const *argv = runtime->version_argv[0] ? runtime->version_argv : standard;
    const struct sbx_probe_wait wait = probe_wait(front);
    struct sbx_probe probe;
    int r = sbx_probe_run(front->backend, index, argv, true, &wait, &probe);

    if (r == 0 && probe.is_ok)
        sbx_service_set_version(&front->service, index, probe.output);
    return r < 0 || !probe.gave_way;
}

/*
 * Asks the runtimes for their versions while nobody else wants anything: no
 * caller waits for it. Each is asked once: a backend that was restarted has the
 * same runtimes.
 */
static void learn_versions(struct front *front)
{
    size_t count;
    const struct sbx_runtime *runtimes = sbx_runtimes(&count);
    struct sbx_msg_hello hello;

    if (!sbx_backend_hello(front->backend, &hello))
        return; /* lost again: the next one is asked */
    for (uint32_t i = 0; i < count && !is_stopping(front); i++) {
        const uint32_t bit = UINT32_C(1) << i;

        if ((front->asked & bit) || !(hello.runtimes & bit))
            continue;
        if (!is_idle(front) || !learn_version(front, &runtimes[i], i))
            return;
        front->asked |= bit;
    }
}

/* Serving is what one real sandbox has shown, not what was set up. Returns false to try again. */
static bool prove_backend(struct front *front)
{
    static const char *const argv[] = {"/usr/bin/true", NULL};
    unsigned int generation = atomic_load(&front->generation);
    const struct sbx_probe_wait wait = probe_wait(front);
    struct sbx_probe probe = {0};
    /* It has the common root file system, and is always there. */
    int r = sbx_probe_run(front->backend, (uint32_t)sbx_runtime_find("shell"), argv, false, &wait,
                          &probe);

    if (r < 0 || !probe.is_ok) {
        const char *reason = strerrordesc_np(r < 0 ? -r : probe.stage_errno);

        cr_log_error("the first run failed, not serving verdict=%s step=%s error=%s",
                     r < 0 ? "" : probe.verdict, r < 0 ? "" : probe.stage, reason ? reason : "");
        return false;
    }
    if (!sbx_readiness_conclude(&front->readiness, generation, atomic_load(&front->generation),
                                true))
        return false;
    set_serving(front, true);
    sbx_backend_report_ready(front->backend);
    cr_log_info("serving");
    return true;
}

/* Until a signal, or until the supervisor is gone. */
static void serve(struct front *front)
{
    struct pollfd fds[] = {
        {.fd = front->signal_fd, .events = POLLIN},
        {.fd = front->event_fd, .events = POLLIN},
    };
    uint64_t count;

    while (!atomic_load(&front->is_orphaned)) {
        unsigned int generation = atomic_load(&front->generation);
        enum sbx_readiness_step step =
            sbx_readiness_next(&front->readiness, atomic_load(&front->is_up), generation);

        if (step != SBX_READINESS_SERVE)
            set_serving(front, false);
        if (step == SBX_READINESS_PROVE && prove_backend(front))
            continue;
        if (step == SBX_READINESS_SERVE)
            learn_versions(front);
        (void)poll(fds, CR_ARRAY_SIZE(fds), LOOK_MS);
        look_at_threads(front);
        if (fds[1].revents)
            (void)!read(front->event_fd, &count, sizeof(count));
        if (fds[0].revents)
            return;
    }
}

/* ---- stop ---- */

/* Callers that balance see NOT_SERVING and go elsewhere; what they have sent until then is still
 * taken. A second signal, which the supervisor turns into the end, does not wait. */
static void delay(struct front *front)
{
    struct signalfd_siginfo info;
    struct pollfd signals = {.fd = front->signal_fd, .events = POLLIN};

    set_serving(front, false);
    (void)!read(front->signal_fd, &info, sizeof(info)); /* the first one */
    if (front->settings.drain_delay_ms > 0 && !atomic_load(&front->is_orphaned))
        (void)poll(&signals, 1, (int)front->settings.drain_delay_ms);
}

static void stop(struct front *front)
{
    int grace_ms = atomic_load(&front->is_orphaned) ? cr_patience_ms(ORPHAN_GRACE_MS)
                                                    : (int)front->settings.grace_ms;

    delay(front);
    cr_log_info("draining runs=%u grace_ms=%d", rpc_server_live_calls(front->server), grace_ms);
    rpc_listener_stop(front->listener);
    sbx_backend_drain(front->backend);
    if (!rpc_server_drain(front->server, grace_ms))
        cr_log_warn("the grace has passed; what was left was cancelled");
}

static void release(struct front *front)
{
    (void)sbx_scrape_free(front->scrape); /* it reads what goes now */
    (void)sbx_backend_free(front->backend, cr_patience_ms(STOP_DEADLINE_MS));
    (void)rpc_listener_free(front->listener);
    (void)rpc_server_free(front->server);
    front->health = rpc_health_port_free(front->health);
    front->tls = tls_context_free(front->tls);
    rpc_fini();
    front->service.callers = rpc_callers_free(front->service.callers);
    sbx_service_done(&front->service);
    front->auth.tokens = rpc_tokens_free(front->auth.tokens);
    sbx_tails_done(&front->tails);
    sbx_sandboxes_done(&front->sandboxes);
    cr_close_fd(&front->audit.fd);
    sbx_front_settings_done(&front->settings);
}

static int start(struct front *front, struct cr_err *err)
{
    const struct rpc_callers_limits limits = {
        .max_live = (uint32_t)front->settings.caller_runs,
        .per_minute = (uint32_t)front->settings.caller_rate,
    };
    int r = open_signals(front, err);

    if (r == 0)
        r = load_auth(front, err);
    if (r == 0)
        r = take_audit(front, err);
    if (r == 0)
        r = take_runtimes(front, err);
    if (r == 0)
        r = take_tls(front, err);
    if (r == 0)
        r = sbx_sandboxes_init(&front->sandboxes, (uint32_t)front->settings.sandboxes_per_caller,
                               err);
    sbx_tails_init(&front->tails);
    if (r == 0)
        r = start_backend(front, err);
    if (r < 0)
        return r;
    front->started_ms = cr_clock_real_ms();
    rpc_init();
    sbx_service_init(&front->service, front->backend, &front->auth, &front->audit,
                     &front->sandboxes, &front->tails);
    if (limits.max_live > 0 || limits.per_minute > 0) {
        front->service.callers = rpc_callers_new(&limits);
        if (!front->service.callers)
            return cr_err_set(err, ENOMEM, "out of memory for the limits of callers");
    }
    r = start_server(front, err);
    return r == 0 ? start_metrics(front, err) : r;
}

int main(int argc, char **argv)
{
    static struct front front = {.audit = SBX_AUDIT_INIT, .signal_fd = -1, .event_fd = -1};
    struct cr_err err = CR_ERR_INIT;
    int r = drop_privileges(argc, argv, &err);

    cr_slice_set(CR_SLICE_SHORT_NS); /* all threads: between a program and its caller */
    cr_log_setup("sandboxd-front", CR_LOG_INFO, CR_LOG_TEXT);
    if (r == 0)
        r = sbx_front_settings_load(argc, argv, &front.settings, &err);
    if (r == 1)
        return EXIT_SUCCESS;
    cr_patience_set(front.settings.slow_host);
    if (r == 0)
        r = cr_log_setup_by_name("sandboxd-front", front.settings.log_level,
                                 front.settings.log_format, &err);
    raise_file_limit();
    if (r == 0)
        r = confine(&err);
    if (r == 0)
        r = start(&front, &err);
    if (r < 0) {
        cr_log_error("cannot start: %s", err.text);
        return EXIT_FAILURE;
    }
    serve(&front);
    stop(&front);
    release(&front);
    return EXIT_SUCCESS;
}
