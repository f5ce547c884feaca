/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/listener_loop.h"

#include "common/auto.h"
#include "common/clock.h"
#include "common/err.h"
#include "common/log.h"
#include "rpc/accept.h"
#include "rpc/connection.h"
#include "tls/stream.h"

#include <errno.h>
#include <signal.h>

#include <sys/epoll.h>
#include <sys/eventfd.h>

#define EVENTS_MAX 64
#define ACCEPTS_PER_TURN 64
/* How long a client may take to read what the server said last; a starved one needs some. */
#define LAST_WORDS_NS (2 * CR_NS_PER_S)
#define SWEEP_NS (250 * CR_NS_PER_MS)
#define PAUSE_NS (100 * CR_NS_PER_MS)

/* ---- log ---- */

/* Whatever a client can trigger is written at most 5 times a second. */
static void log_refusal(struct rpc_listener *listener, const char *what,
                        const struct rpc_peer *peer, const char *reason, int64_t now_ns)
{
    static const struct cr_rate rate = {.per_s = 5, .burst = 20};

    if (!rpc_bucket_take(&listener->log_bucket, &rate, now_ns)) {
        listener->lines_left_out++;
        return;
    }
    cr_log_warn("%s reason=\"%s\" caller=%s address=%s lines_left_out=%u", what, reason,
                peer ? peer->caller : "?", peer ? peer->address : "?", listener->lines_left_out);
    listener->lines_left_out = 0;
}

/* ---- connections ---- */

static void unlink_guard(struct rpc_listener *listener, struct rpc_guard *guard)
{
    struct rpc_guard_link *link = rpc_guard_link(guard);

    if (link->previous)
        rpc_guard_link(link->previous)->next = link->next;
    else
        listener->live = link->next;
    if (link->next)
        rpc_guard_link(link->next)->previous = link->previous;
}

/* The handshake of a connection is over, well or not. */
static void end_handshake(struct rpc_listener *listener, struct rpc_guard *guard)
{
    struct rpc_guard_link *link = rpc_guard_link(guard);
    struct rpc_quota *quota = link->owner_data;

    if (!link->is_shaking)
        return;
    link->is_shaking = false;
    quota->handshakes--;
    listener->handshakes--;
}

static void on_secured(void *user, struct rpc_guard *guard)
{
    end_handshake(user, guard);
}

static void on_dead(void *user, struct rpc_guard *guard, const char *reason)
{
    struct rpc_listener *listener = user;
    struct rpc_guard_link *link = rpc_guard_link(guard);

    if (reason)
        log_refusal(listener, "connection closed", rpc_guard_peer(guard), reason,
                    cr_clock_mono_ns());
    end_handshake(listener, guard);
    rpc_quotas_release(listener->quotas, link->owner_data);
    unlink_guard(listener, guard);
    link->next = listener->dead;
    listener->dead = guard;
}

static void free_dead(struct rpc_listener *listener)
{
    while (listener->dead) {
        struct rpc_guard *guard = listener->dead;

        listener->dead = rpc_guard_link(guard)->next;
        (void)rpc_guard_free(guard);
    }
}

static int attach(void *user, int fd, const struct rpc_peer *peer, struct cr_err *err)
{
    struct rpc_listener *listener = user;

    return rpc_server_add_connection(listener->server, fd, peer, err);
}

static bool is_allowed(const struct rpc_listener *listener, const struct rpc_peer *peer)
{
    if (!peer->is_unix || !listener->has_uids)
        return true;
    for (size_t i = 0; i < listener->uid_count; i++)
        if (listener->uids[i] == peer->uid)
            return true;
    return false;
}

/* NULL: it may go on; else why not. */
static const char *refuse_handshake(const struct rpc_listener *listener,
                                    const struct rpc_quota *quota)
{
    if (listener->handshakes >= listener->edge.max_handshakes)
        return "too many TLS handshakes";
    if (quota->handshakes >= listener->edge.max_address_handshakes)
        return "too many TLS handshakes of one peer";
    return NULL;
}

/* Makes the guard, behind TLS or not. NULL when it is out of something, or may not; then *reason
 * says what. */
static struct rpc_guard *make_guard(struct rpc_listener *listener,
                                    const struct rpc_accepted *accepted, struct rpc_quota *quota,
                                    int64_t now_ns, const char **reason)
{
    bool has_tls = listener->tls && !accepted->peer.is_unix;
    struct tls_stream *stream = NULL;
    struct rpc_guard *guard = NULL;

    *reason = has_tls ? refuse_handshake(listener, quota) : NULL;
    if (*reason)
        return NULL;
    *reason = "out of resources";
    if (has_tls) {
        stream = tls_stream_new(listener->tls, accepted->fd);
        if (!stream)
            return NULL;
    }
    if (rpc_guard_new(&listener->host, accepted->fd, &accepted->peer, &quota->frames, now_ns,
                      &guard, NULL) < 0) {
        (void)tls_stream_free(stream);
        return NULL;
    }
    *rpc_guard_link(guard) =
        (struct rpc_guard_link){.next = listener->live, .owner_data = quota, .is_shaking = has_tls};
    if (has_tls) {
        rpc_guard_secure(guard, stream);
        quota->handshakes++;
        listener->handshakes++;
    }
    return guard;
}

/* Leaves the fd alone when it lets the connection in, else the caller closes it. */
static bool admit(struct rpc_listener *listener, const struct rpc_accepted *accepted,
                  int64_t now_ns)
{
    const struct rpc_peer *peer = &accepted->peer;
    struct rpc_guard *guard;
    struct rpc_quota *quota;
    enum rpc_quota_verdict verdict;
    const char *reason;

    if (!is_allowed(listener, peer)) {
        log_refusal(listener, "connection refused", peer, "user not allowed", now_ns);
        return false;
    }
    verdict = rpc_quotas_admit(listener->quotas, accepted->quota_key,
                               peer->is_unix ? &listener->unix_limits : &listener->tcp_limits,
                               now_ns, &quota);
    if (verdict != RPC_QUOTA_OK) {
        log_refusal(listener, "connection refused", peer, rpc_quota_verdict_name(verdict), now_ns);
        return false;
    }
    guard = make_guard(listener, accepted, quota, now_ns, &reason);
    if (!guard) {
        log_refusal(listener, "connection refused", peer, reason, now_ns);
        rpc_quotas_release(listener->quotas, quota);
        return false;
    }
    if (listener->live)
        rpc_guard_link(listener->live)->previous = guard;
    listener->live = guard;
    return true;
}

/* ---- accepting ---- */

static void watch_addresses(struct rpc_listener *listener, bool is_on)
{
    for (size_t i = 0; i < listener->address_count; i++) {
        struct rpc_listener_address *address = &listener->addresses[i];
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = &address->watch};

        if (address->listen.fd >= 0)
            (void)epoll_ctl(listener->host.epoll_fd, is_on ? EPOLL_CTL_ADD : EPOLL_CTL_DEL,
                            address->listen.fd, &event);
    }
}

static void pause_accepting(struct rpc_listener *listener, int64_t now_ns)
{
    if (listener->resume_ns == 0)
        watch_addresses(listener, false);
    listener->resume_ns = now_ns + PAUSE_NS;
    log_refusal(listener, "accepting paused", NULL, "out of resources", now_ns);
}

static void resume_accepting(struct rpc_listener *listener, int64_t now_ns)
{
    if (listener->resume_ns == 0 || now_ns < listener->resume_ns)
        return;
    listener->resume_ns = 0;
    rpc_accept_get_spare(&listener->spare_fd);
    if (listener->is_accepting)
        watch_addresses(listener, true);
}

void rpc_listener_loop_accept(struct rpc_watch *watch, uint32_t events, int64_t now_ns)
{
    struct rpc_listener_address *address = (struct rpc_listener_address *)watch;
    struct rpc_listener *listener = address->listener;

    (void)events;
    /* A turn is bounded, so that a storm of connections leaves time for those that are here. */
    for (int i = 0; i < ACCEPTS_PER_TURN && listener->is_accepting; i++) {
        struct rpc_accepted accepted;

        switch (rpc_accept(address->listen.fd, address->is_unix, &listener->spare_fd, &accepted)) {
        case RPC_ACCEPT_DONE:
            if (!admit(listener, &accepted, now_ns))
                (void)close(accepted.fd);
            break;
        case RPC_ACCEPT_NOTHING:
            return;
        case RPC_ACCEPT_LOST:
            break;
        case RPC_ACCEPT_REFUSED:
            log_refusal(listener, "connection refused", NULL, "no file descriptors left", now_ns);
            break;
        case RPC_ACCEPT_PAUSE:
            pause_accepting(listener, now_ns);
            return;
        }
    }
}

void rpc_listener_loop_close_addresses(struct rpc_listener *listener)
{
    for (size_t i = 0; i < listener->address_count; i++)
        cr_listen_close(&listener->addresses[i].listen);
}

/* ---- the thread ---- */

static void on_command(struct rpc_watch *watch, uint32_t events, int64_t now_ns)
{
    struct rpc_listener *listener =
        (struct rpc_listener *)((char *)watch - offsetof(struct rpc_listener, command_watch));
    uint64_t count;

    (void)events;
    (void)!read(listener->command_fd, &count, sizeof(count));
    (void)pthread_mutex_lock(&listener->lock);
    if (!listener->is_quitting && listener->command == RPC_LISTENER_QUIT) {
        listener->is_quitting = true;
        listener->quit_ns = now_ns + LAST_WORDS_NS;
    }
    if (listener->is_accepting && listener->command != RPC_LISTENER_RUN) {
        listener->is_accepting = false;
        rpc_listener_loop_close_addresses(listener);
        listener->is_stopped = true;
        (void)pthread_cond_broadcast(&listener->changed);
    }
    (void)pthread_mutex_unlock(&listener->lock);
}

static void sweep(struct rpc_listener *listener, int64_t now_ns)
{
    struct rpc_guard *next;

    if (!listener->host.has_timed || now_ns < listener->sweep_ns)
        return;
    listener->sweep_ns = now_ns + SWEEP_NS;
    listener->host.has_timed = false;
    for (struct rpc_guard *guard = listener->live; guard; guard = next) {
        next = rpc_guard_link(guard)->next;
        rpc_guard_check_time(guard, now_ns);
    }
}

/* Connections that pause, so that others are served between their frames. */
static void resume_guards(struct rpc_listener *listener, int64_t now_ns)
{
    struct rpc_guard *next;

    if (now_ns < listener->host.resume_ns)
        return;
    listener->host.resume_ns = INT64_MAX;
    for (struct rpc_guard *guard = listener->live; guard; guard = next) {
        next = rpc_guard_link(guard)->next;
        rpc_guard_resume(guard, now_ns);
    }
}

/* Milliseconds until something is due; -1 while nothing is. */
static int timeout_ms(const struct rpc_listener *listener, int64_t now_ns)
{
    int64_t due_ns = listener->host.resume_ns;

    if (listener->host.has_timed && listener->sweep_ns < due_ns)
        due_ns = listener->sweep_ns;
    if (listener->resume_ns != 0 && listener->resume_ns < due_ns)
        due_ns = listener->resume_ns;
    if (due_ns == INT64_MAX)
        return -1;
    return due_ns <= now_ns ? 0 : (int)((due_ns - now_ns) / CR_NS_PER_MS) + 1;
}

static void finish_guards(struct rpc_listener *listener, int64_t now_ns)
{
    struct rpc_guard *next;

    for (struct rpc_guard *guard = listener->live; guard; guard = next) {
        next = rpc_guard_link(guard)->next;
        rpc_guard_finish(guard, now_ns);
    }
}

/* At the end first what is ready, at once; then what clients still say, as long as there may be. */
static int wait_ms(const struct rpc_listener *listener, bool is_finishing, int64_t now_ns)
{
    if (!listener->is_quitting)
        return timeout_ms(listener, now_ns);
    if (!is_finishing || now_ns >= listener->quit_ns)
        return 0;
    return (int)((listener->quit_ns - now_ns) / CR_NS_PER_MS) + 1;
}

static void *run(void *user)
{
    struct rpc_listener *listener = user;
    struct epoll_event events[EVENTS_MAX];
    bool is_finishing = false; /* what the server had written was ready, and is relayed */

    while (!listener->is_quitting || listener->live) {
        bool is_last = listener->is_quitting;
        int count = epoll_wait(listener->host.epoll_fd, events, EVENTS_MAX,
                               wait_ms(listener, is_finishing, cr_clock_mono_ns()));
        int64_t now_ns = cr_clock_mono_ns();

        is_finishing = is_finishing || (is_last && count <= 0);
        for (int i = 0; i < count; i++) {
            struct rpc_watch *watch = events[i].data.ptr;

            watch->on_ready(watch, events[i].events, now_ns);
        }
        resume_guards(listener, now_ns);
        sweep(listener, now_ns);
        resume_accepting(listener, now_ns);
        if (is_finishing)
            finish_guards(listener, now_ns);
        free_dead(listener);
        /* Behind a pass: a thread that was starved until now still relays what is ready. */
        if (is_last && now_ns >= listener->quit_ns)
            break;
    }
    return NULL;
}

/* ---- life ---- */

int rpc_listener_loop_open(struct rpc_listener *listener, struct cr_err *err)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = &listener->command_watch};

    listener->command_watch.on_ready = on_command;
    listener->host.attach = attach;
    listener->host.on_dead = on_dead;
    listener->host.on_secured = on_secured;
    listener->host.user = listener;
    listener->host.resume_ns = INT64_MAX;
    listener->host.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (listener->host.epoll_fd < 0)
        return cr_err_sys(err, errno, "make the listener's epoll");
    listener->command_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (listener->command_fd < 0)
        return cr_err_sys(err, errno, "make the listener's eventfd");
    if (epoll_ctl(listener->host.epoll_fd, EPOLL_CTL_ADD, listener->command_fd, &event) < 0)
        return cr_err_sys(err, errno, "watch the listener's eventfd");
    rpc_accept_get_spare(&listener->spare_fd);
    return 0;
}

/* Signals are for main: the thread starts with all of them blocked. */
static int start_thread(struct rpc_listener *listener)
{
    sigset_t all;
    sigset_t before;
    int error;

    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    error = pthread_create(&listener->thread, NULL, run, listener);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

int rpc_listener_loop_start(struct rpc_listener *listener, struct cr_err *err)
{
    int error;

    listener->is_accepting = true;
    watch_addresses(listener, true);
    error = start_thread(listener);
    if (error) {
        watch_addresses(listener, false);
        listener->is_accepting = false;
        return cr_err_sys(err, error, "start the listener's thread");
    }
    listener->has_thread = true;
    return 0;
}

void rpc_listener_loop_command(struct rpc_listener *listener, enum rpc_listener_command command)
{
    const uint64_t one = 1;

    (void)pthread_mutex_lock(&listener->lock);
    if (command > listener->command)
        listener->command = command;
    (void)!write(listener->command_fd, &one, sizeof(one));
    while (!listener->is_stopped)
        (void)pthread_cond_wait(&listener->changed, &listener->lock);
    (void)pthread_mutex_unlock(&listener->lock);
}

void rpc_listener_loop_done(struct rpc_listener *listener)
{
    if (listener->has_thread) {
        rpc_listener_loop_command(listener, RPC_LISTENER_QUIT);
        (void)pthread_join(listener->thread, NULL);
        listener->has_thread = false;
    }
    rpc_listener_loop_close_addresses(listener);
    while (listener->live) {
        struct rpc_guard *guard = listener->live;

        listener->live = rpc_guard_link(guard)->next;
        (void)rpc_guard_free(guard);
    }
    cr_close_fd(&listener->spare_fd);
    cr_close_fd(&listener->command_fd);
    cr_close_fd(&listener->host.epoll_fd);
}
