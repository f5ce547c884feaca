/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/patience.h"
#include "rpc/health_port.h"
#include "rpc/server.h"
#include "sandboxd/front/backend.h"
#include "sandboxd/front/front.h"
#include "sandboxd/front/probe.h"
#include "sandboxd/runtimes/table.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SERVICE_NAME "crisol.sandbox.v1.SandboxService"
#define PROBE_DEADLINE_MS 15000
/* Looks at the threads of calls and of streams, and at what could not be done before. After so many
 * in a row without a sign of life the supervisor is not told any more that all is well, … */
#define LOOK_MS CR_TURN_MS
#define LOOKS_STILL 3
#define LOOKS_MAX 30 /* … and this is the end */

void sbx_front_set_serving(struct sbx_front *front, bool is_serving)
{
    atomic_store(&front->is_serving, is_serving);
    rpc_server_set_serving(front->server, "", is_serving);
    rpc_server_set_serving(front->server, SERVICE_NAME, is_serving);
    if (!front->health)
        return;
    rpc_health_port_set(front->health, SERVICE_NAME, is_serving);
    rpc_health_port_set_ready(front->health, is_serving);
}

static bool is_stopping(const struct sbx_front *front)
{
    struct pollfd signals = {.fd = front->signal_fd, .events = POLLIN};

    return atomic_load(&front->is_orphaned) || poll(&signals, 1, 0) > 0;
}

static bool is_idle(const struct sbx_front *front)
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
    struct sbx_front *front = user;
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

static struct sbx_probe_wait probe_wait(struct sbx_front *front)
{
    return (struct sbx_probe_wait){cr_patience_ms(PROBE_DEADLINE_MS), look_at_threads, front};
}

/* Asks one runtime for its version, in a sandbox like everything else. False: not now. */
static bool learn_version(struct sbx_front *front, const struct sbx_runtime *runtime,
                          uint32_t index)
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
static void learn_versions(struct sbx_front *front)
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
static bool prove_backend(struct sbx_front *front)
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
    sbx_front_set_serving(front, true);
    sbx_backend_report_ready(front->backend);
    cr_log_info("serving");
    return true;
}

void sbx_front_serve(struct sbx_front *front)
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
            sbx_front_set_serving(front, false);
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
