/* SPDX-License-Identifier: Apache-2.0 */
#include "common/clock.h"
#include "common/log.h"
#include "common/mailbox.h"
#include "common/slice.h"
#include "common/turns.h"
#include "orchestrator/http/acceptor.h"
#include "orchestrator/http/connection.h"
#include "orchestrator/http/exchange.h"
#include "orchestrator/http/private.h"
#include "orchestrator/http/secure.h"

#include <poll.h>
#include <unistd.h>

#include <sys/epoll.h>

#define EVENTS_MAX 64
#define TICK_MS 100
#define MAILS_PER_TURN 32
#define SLICE_NS 200000ULL
/* After the grace: for last bytes, and for calls that were cancelled to end. */
#define LAST_WORDS_MS 1000
#define CANCELLED_CALLS_MS 10000

void agt_http_wake(struct agt_http *http)
{
    const uint64_t one = 1;

    /* Fails only when it is readable already. */
    (void)!write(http->wake_fd, &one, sizeof(one));
}

static void read_wake(struct agt_http *http)
{
    uint64_t count;

    (void)!read(http->wake_fd, &count, sizeof(count));
}

/*
 * Wakes a few exchanges, and leaves the others to the next turn: hundreds may follow one run, and
 * each of its events would keep everybody else waiting until all of them had it.
 */
static void handle_mails(struct agt_http *http)
{
    if (!http->mails)
        http->mails = cr_mailbox_take_all(http->mailbox);
    for (int i = 0; http->mails && i < MAILS_PER_TURN; i++) {
        struct cr_mail *mail = http->mails;

        http->mails = mail->next; /* a mail may be posted again at once */
        agt_exchange_on_mail((struct agt_exchange *)(void *)mail);
    }
}

static void quiesce(struct agt_http *http)
{
    if (http->is_quiesced || !atomic_load(&http->must_quiesce))
        return;
    http->is_quiesced = true;
    agt_acceptor_close(http);
}

static bool has_work(const struct agt_http *http)
{
    for (const struct agt_connection *at = http->head; at; at = at->next) {
        if (at->exchange)
            return true;
    }
    return false;
}

static void shut_down_all(struct agt_http *http)
{
    for (struct agt_connection *at = http->head; at; at = at->next) {
        if (at->exchange)
            agt_exchange_shut_down(at->exchange);
        else
            agt_connection_shut(at);
    }
}

/* True when the loop may end. */
static bool stopping_is_done(struct agt_http *http, int64_t now_ns)
{
    int64_t stop_at_ns = atomic_load(&http->stop_at_ns);

    if (!has_work(http))
        return true;
    if (now_ns < stop_at_ns)
        return false;
    if (!http->has_cancelled) {
        http->has_cancelled = true;
        shut_down_all(http);
        return false;
    }
    return now_ns >= stop_at_ns + LAST_WORDS_MS * CR_NS_PER_MS;
}

static int timeout_ms(struct agt_http *http)
{
    MHD_UNSIGNED_LONG_LONG mhd_ms;
    bool needs_tick = http->head || http->accept_again_ns != 0 || atomic_load(&http->must_stop);
    int wait_ms = needs_tick ? TICK_MS : -1;

    if (http->mails)
        return 0;
    if (MHD_get_timeout(http->daemon, &mhd_ms) == MHD_YES && (wait_ms < 0 || mhd_ms < TICK_MS))
        wait_ms = mhd_ms < TICK_MS ? (int)mhd_ms : TICK_MS;
    return wait_ms;
}

/*
 * Handles what happened to connections before MHD_run(), which alone frees
 * them, so that no event of the batch names one that is gone.
 */
static void wait_events(struct agt_http *http)
{
    struct epoll_event events[EVENTS_MAX];
    int count = epoll_wait(http->epoll_fd, events, EVENTS_MAX, cr_turn_ms(timeout_ms(http)));

    (void)atomic_fetch_add(&http->turns, 1);
    for (int i = 0; i < count; i++) {
        void *source = events[i].data.ptr;

        if (source == &http->wake_fd)
            read_wake(http);
        else if (source == &http->listen)
            agt_acceptor_ready(http);
        else if (source != &http->daemon && source != &http->mailbox)
            agt_connection_hang_up(source);
    }
}

static void tick(struct agt_http *http, int64_t now_ns)
{
    if (now_ns < http->next_tick_ns)
        return;
    http->next_tick_ns = now_ns + TICK_MS * CR_NS_PER_MS;
    agt_acceptor_tick(http, now_ns);
    agt_connection_tick_all(http, now_ns);
}

/* Calls that were cancelled still hold an exchange until they have ended. */
static void wait_for_exchanges(struct agt_http *http)
{
    int64_t until_ns = cr_clock_mono_ns() + CANCELLED_CALLS_MS * CR_NS_PER_MS;

    handle_mails(http);
    while (atomic_load(&http->exchange_count) > 0 && cr_clock_mono_ns() < until_ns) {
        struct pollfd mail = {.fd = cr_mailbox_fd(http->mailbox), .events = POLLIN};

        /* An exchange may also end without a mail, so never for long. */
        (void)poll(&mail, 1, http->mails ? 0 : 5);
        handle_mails(http);
    }
}

void *agt_http_loop(void *user)
{
    struct agt_http *http = user;

    /* Probes are answered soon, however much the runs have to do. */
    cr_slice_set(SLICE_NS);
    for (;;) {
        int64_t now_ns;

        wait_events(http);
        handle_mails(http);
        agt_secure_take(http);
        now_ns = cr_clock_mono_ns();
        tick(http, now_ns);
        (void)MHD_run(http->daemon);
        quiesce(http);
        if (atomic_load(&http->must_stop) && stopping_is_done(http, now_ns))
            break;
    }
    http->is_clean = !http->has_cancelled;
    /* Frees every connection, and with them their references to exchanges. */
    MHD_stop_daemon(http->daemon);
    http->daemon = NULL;
    wait_for_exchanges(http);
    return NULL;
}
