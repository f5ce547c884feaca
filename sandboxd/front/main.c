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
#include "proto/descriptor_set.h"
#include "rpc/callers.h"
#include "rpc/health_port.h"
#include "rpc/listener.h"
#include "rpc/server.h"
#include "rpc/tokens.h"
#include "sandboxd/front/backend.h"
#include "sandboxd/front/confine.h"
#include "sandboxd/front/front.h"
#include "sandboxd/front/scrape.h"
#include "sandboxd/runtimes/table.h"
#include "tls/context.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>

#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/signalfd.h>

#define STOP_DEADLINE_MS 5000
/* The backend sees the end of its own control socket, and its end gives every run a verdict. */
#define ORPHAN_GRACE_MS 2000

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

static int open_signals(struct sbx_front *front, struct cr_err *err)
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

static void ring(struct sbx_front *front)
{
    const uint64_t one = 1;

    (void)!write(front->event_fd, &one, sizeof(one));
}

static void on_state(void *user, bool is_up)
{
    struct sbx_front *front = user;

    atomic_store(&front->is_up, is_up);
    atomic_fetch_add(&front->generation, 1);
    ring(front);
}

static void on_orphaned(void *user)
{
    struct sbx_front *front = user;

    atomic_store(&front->is_orphaned, true);
    ring(front);
}

static int take_audit(struct sbx_front *front, struct cr_err *err)
{
    if (!front->settings.with_audit)
        return 0;
    if (fcntl(SBX_FRONT_FD_AUDIT, F_SETFD, FD_CLOEXEC) < 0)
        return cr_err_sys(err, errno, "use descriptor 6");
    front->audit.fd = SBX_FRONT_FD_AUDIT;
    return 0;
}

static int take_runtimes(const struct sbx_front *front, struct cr_err *err)
{
    int r;

    if (!front->settings.with_runtimes)
        return 0;
    r = sbx_runtimes_load(SBX_FRONT_FD_RUNTIMES, err);
    (void)close(SBX_FRONT_FD_RUNTIMES);
    return r;
}

static int start_backend(struct sbx_front *front, struct cr_err *err)
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
        .on_tls = sbx_front_on_tls,
        .on_tokens = sbx_front_on_tokens,
    };

    if (fcntl(SBX_FRONT_FD_WIRE, F_SETFD, FD_CLOEXEC) < 0 ||
        fcntl(SBX_FRONT_FD_CONTROL, F_SETFD, FD_CLOEXEC) < 0)
        return cr_err_sys(err, errno, "use descriptors 3 and 4");
    return sbx_backend_new(&options, &front->backend, err);
}

static int start_server(struct sbx_front *front, struct cr_err *err)
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
    struct sbx_front *front = user;

    cr_metrics_family(metrics, "sandboxd_build_info", "gauge", "Always 1; the label tells.");
    cr_metrics_count(metrics, version, 1);
    cr_metrics_family(metrics, "sandboxd_serving", "gauge",
                      "1 when a run has shown that sandboxd works and it takes calls.");
    cr_metrics_count(metrics, NULL, atomic_load(&front->is_serving));
    cr_metrics_process(metrics, front->started_ms);
    sbx_backend_write_metrics(front->backend, metrics);
    rpc_server_write_metrics(front->server, metrics);
    cr_renewals_write(&front->renewals, metrics);
}

static int start_metrics(struct sbx_front *front, struct cr_err *err)
{
    int fd = SBX_FRONT_FD_LISTEN + (int)front->settings.listen_count;

    if (!front->settings.with_metrics)
        return 0;
    if (fcntl(fd, F_SETFD, FD_CLOEXEC) < 0)
        return cr_err_sys(err, errno, "use the socket of the metrics");
    return sbx_scrape_new(fd, write_metrics, front, &front->scrape, err);
}

/* ---- stop ---- */

/* Callers that balance see NOT_SERVING and go elsewhere; what they have sent until then is still
 * taken. A second signal, which the supervisor turns into the end, does not wait. */
static void delay(struct sbx_front *front)
{
    struct signalfd_siginfo info;
    struct pollfd signals = {.fd = front->signal_fd, .events = POLLIN};

    sbx_front_set_serving(front, false);
    (void)!read(front->signal_fd, &info, sizeof(info)); /* the first one */
    if (front->settings.drain_delay_ms > 0 && !atomic_load(&front->is_orphaned))
        (void)poll(&signals, 1, (int)front->settings.drain_delay_ms);
}

static void stop(struct sbx_front *front)
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

static void release(struct sbx_front *front)
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

static int start(struct sbx_front *front, struct cr_err *err)
{
    const struct rpc_callers_limits limits = {
        .max_live = (uint32_t)front->settings.caller_runs,
        .per_minute = (uint32_t)front->settings.caller_rate,
    };
    int r = open_signals(front, err);

    if (r == 0)
        r = sbx_front_take_auth(front, err);
    if (r == 0)
        r = take_audit(front, err);
    if (r == 0)
        r = take_runtimes(front, err);
    if (r == 0)
        r = sbx_front_take_tls(front, err);
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
    static struct sbx_front front = {.audit = SBX_AUDIT_INIT, .signal_fd = -1, .event_fd = -1};
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
    sbx_front_serve(&front);
    stop(&front);
    release(&front);
    return EXIT_SUCCESS;
}
