/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/clock.h"
#include "rpc/guard_private.h"

#include <sys/socket.h>

/*
 * A costly frame is paid for with a pause: four times what it costs core (64
 * us, measured), so that all of them together take at most a quarter of its
 * thread and a call of somebody else waits for about 1 ms.
 */
#define COSTLY_NS (256 * CR_NS_PER_S / 1000000)
/*
 * Connections are shown to core, and ended there, one by one, so that hundreds
 * at once leave time for those that stay: each takes it about 100 us. When we
 * are late and many have their turn, so many are served before others are.
 */
#define TURN_NS (250 * CR_NS_PER_S / 1000000)
#define TURNS_AT_ONCE 4U

static void attach(struct rpc_guard *guard, int64_t now_ns)
{
    CR_AUTO_CLOSE int ours = -1;
    CR_AUTO_CLOSE int theirs = -1;
    int pair[2];

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0) {
        rpc_guard_die(guard, "no file descriptors left");
        return;
    }
    ours = pair[0];
    theirs = pair[1];
    if (guard->host->attach(guard->host->user, theirs, &guard->peer, NULL) < 0) {
        /* Draining, or out of something: the client hears that the service is unavailable. */
        rpc_guard_die(guard, NULL);
        return;
    }
    (void)cr_take_fd(&theirs);
    guard->server.fd = cr_take_fd(&ours);
    rpc_guard_set_phase(guard, RPC_GUARD_RELAY, now_ns);
}

static void pause_until(struct rpc_guard *guard, int64_t until_ns)
{
    guard->pause_ns = until_ns;
    if (guard->host->resume_ns > until_ns)
        guard->host->resume_ns = until_ns;
}

void rpc_guard_leave(struct rpc_guard *guard, int64_t now_ns)
{
    struct rpc_guard_host *host = guard->host;

    if (guard->phase != RPC_GUARD_RELAY || now_ns >= host->leave_ns) {
        host->leave_ns = now_ns + TURN_NS;
        rpc_guard_die(guard, NULL);
        return;
    }
    cr_close_fd(&guard->client.fd); /* which epoll forgets, too */
    (void)rpc_guard_set_interest(&guard->server, 0);
    rpc_guard_set_phase(guard, RPC_GUARD_LEAVING, now_ns);
    pause_until(guard, host->leave_ns);
    host->leave_ns += TURN_NS;
}

void rpc_guard_attach_in_turn(struct rpc_guard *guard, int64_t now_ns)
{
    struct rpc_guard_host *host = guard->host;

    if (now_ns >= host->attach_ns) {
        host->attach_ns = now_ns + TURN_NS;
        attach(guard, now_ns);
        return;
    }
    rpc_guard_set_phase(guard, RPC_GUARD_TURN, now_ns);
    pause_until(guard, host->attach_ns);
    host->attach_ns += TURN_NS;
}

void rpc_guard_pay(struct rpc_guard *guard, int64_t now_ns)
{
    struct rpc_guard_host *host = guard->host;

    if (host->costly_ns < now_ns)
        host->costly_ns = now_ns;
    host->costly_ns += guard->h2.costly * COSTLY_NS;
    pause_until(guard, host->costly_ns);
}

/* A few in each pass of the loop; true when this one has to wait for the next. */
static bool must_wait(struct rpc_guard *guard, int64_t now_ns)
{
    struct rpc_guard_host *host = guard->host;

    if (now_ns < guard->pause_ns) {
        pause_until(guard, guard->pause_ns);
        return true;
    }
    if (guard->phase == RPC_GUARD_RELAY)
        return false;
    if (host->pass_ns != now_ns) {
        host->pass_ns = now_ns;
        host->pass_count = 0;
    }
    if (host->pass_count == TURNS_AT_ONCE) {
        pause_until(guard, now_ns + 1);
        return true;
    }
    host->pass_count++;
    return false;
}

void rpc_guard_resume(struct rpc_guard *guard, int64_t now_ns)
{
    bool is_waiting = guard->phase == RPC_GUARD_TURN || guard->phase == RPC_GUARD_LEAVING ||
                      (guard->phase == RPC_GUARD_RELAY && guard->to_server.unchecked > 0);

    if (!is_waiting || must_wait(guard, now_ns))
        return;
    if (guard->phase == RPC_GUARD_LEAVING) {
        rpc_guard_die(guard, NULL);
        return;
    }
    if (guard->phase == RPC_GUARD_TURN)
        attach(guard, now_ns);
    if (guard->phase == RPC_GUARD_RELAY)
        rpc_guard_pass_on(guard, now_ns);
    if (guard->phase == RPC_GUARD_RELAY && rpc_guard_is_reading(guard))
        rpc_h2_restart_clock(&guard->h2, now_ns);
    rpc_guard_rearm(guard);
}
