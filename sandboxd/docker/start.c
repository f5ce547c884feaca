/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/buf.h"
#include "common/clock.h"
#include "common/err.h"
#include "common/log.h"
#include "sandboxd/backend/capacity.h"
#include "sandboxd/backend/gaps.h"
#include "sandboxd/backend/seccomp.h"
#include "sandboxd/docker/address.h"
#include "sandboxd/docker/docker.h"
#include "sandboxd/docker/engine.h"
#include "sandboxd/docker/json.h"
#include "sandboxd/docker/seccomp_json.h"
#include "sandboxd/runtimes/table.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <sys/epoll.h>

#define BACKEND_DOCKER 2 /* crisol.sandbox.v1.Backend */
#define INFO_MS 15000
#define ANSWER_MAX (1U << 20)
#define PROFILE_MAX (64U << 10)
#define WAIT_MS 250

/* ---- the engine ---- */

/* Returns 1 when the supervisor went away meanwhile. */
static int wait_for_engine(struct sbx_docker *docker, struct cr_err *err)
{
    struct pollfd lifeline = {.fd = docker->base.lifeline_fd, .events = POLLIN};
    int said = 0;

    for (;;) {
        int r = sbx_engine_negotiate(docker->engine, err);

        if (r == 0 || !docker->settings->must_wait)
            return r;
        if (r != said)
            cr_log_warn("%s; waiting for it", err->text);
        said = r;
        if (poll(&lifeline, 1, WAIT_MS) > 0 && (lifeline.revents & (POLLHUP | POLLIN)))
            return 1;
    }
}

static bool is_true(const cJSON *info, const char *key)
{
    return cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(info, key));
}

static bool has_seccomp(const cJSON *info)
{
    const cJSON *option;

    cJSON_ArrayForEach(option, cJSON_GetObjectItemCaseSensitive(info, "SecurityOptions"))
    {
        if (cJSON_IsString(option) && strstr(option->valuestring, "name=seccomp"))
            return true;
    }
    return false;
}

/* What the engine says that its host can do. Partial: docs/threat-model.md says in what. */
static void judge(const cJSON *info, bool is_inside, uint8_t controls[SBX_CONTROL_COUNT])
{
    memset(controls, SBX_ENFORCED, SBX_CONTROL_COUNT);
    controls[SBX_CONTROL_USER] = SBX_PARTIAL; /* the ids are those of the host */
    controls[SBX_CONTROL_PROC] = SBX_PARTIAL; /* pid 1 and the origin of mounts can be seen */
    controls[SBX_CONTROL_DEV] = SBX_PARTIAL;  /* terminals and mqueue besides */
    if (is_inside)
        controls[SBX_CONTROL_ROOTFS] = SBX_PARTIAL; /* read-only files are the program's own */
    if (!is_true(info, "MemoryLimit"))
        controls[SBX_CONTROL_MEMORY] = SBX_GAP;
    if (!is_true(info, "SwapLimit"))
        controls[SBX_CONTROL_SWAP] = SBX_GAP;
    if (!is_true(info, "CpuCfsQuota"))
        controls[SBX_CONTROL_CPU] = SBX_GAP;
    if (!is_true(info, "PidsLimit"))
        controls[SBX_CONTROL_PIDS] = SBX_GAP;
    if (!has_seccomp(info))
        controls[SBX_CONTROL_SECCOMP] = SBX_GAP;
}

/* The engine itself would say so only when the first container is made. */
static int check_runtime(const cJSON *info, const char *runtime, struct cr_err *err)
{
    const cJSON *runtimes = cJSON_GetObjectItemCaseSensitive(info, "Runtimes");
    const cJSON *known;
    char names[256] = "";

    if (!runtime || !*runtime || cJSON_GetObjectItemCaseSensitive(runtimes, runtime))
        return 0;
    cJSON_ArrayForEach(known, runtimes)
    {
        const size_t used = strlen(names);

        (void)snprintf(names + used, sizeof(names) - used, "%s%s", used > 0 ? ", " : "",
                       known->string);
    }
    return cr_err_set(
        err, EINVAL,
        "--docker-runtime: the docker engine has no runtime '%s' (it has %s): install "
        "it and name it in the engine's daemon.json, or leave this setting out",
        runtime, names[0] ? names : "none");
}

/*
 * The processes of an engine that is reached by TCP are on another host, and
 * a runtime with a kernel of its own shows none of its files: there
 * sandbox-init reads counters and files, and every result says so.
 */
static bool must_look_inside(const struct sbx_docker *docker)
{
    const struct sbx_docker_settings *settings = docker->settings;
    bool is_own_kernel = settings->runtime && strncmp(settings->runtime, "runsc", 5) == 0;

    if (strcmp(settings->evidence, "auto") != 0)
        return strcmp(settings->evidence, "inside") == 0;
    return is_own_kernel || sbx_engine_address(docker->engine)->is_tcp;
}

int sbx_docker_ask_info(struct sbx_docker *docker, struct cr_err *err)
{
    const struct sbx_engine_request request = {
        .method = "GET", .path = "/info", .deadline_ms = INFO_MS};
    CR_AUTO_BUF struct cr_buf answer;
    CR_AUTO_JSON cJSON *info = NULL;
    long status = 0;
    int r;

    cr_buf_init(&answer, ANSWER_MAX);
    r = sbx_engine_ask(docker->engine, &request, &answer, &status, err);
    if (r < 0)
        return r;
    info = cJSON_Parse(cr_buf_str(&answer));
    if (status != 200 || !info)
        return cr_err_set(err, EPROTO, "the docker engine does not tell about its host");
    r = check_runtime(info, docker->settings->runtime, err);
    if (r < 0)
        return r;
    docker->base.is_inferring = must_look_inside(docker);
    judge(info, docker->base.is_inferring, docker->base.controls);
    sbx_weaken_controls(&docker->base);
    return sbx_gaps_check_all(docker->base.controls, docker->settings->accept_gaps, err);
}

/* ---- what is prepared once and used by every box ---- */

static int make_plan(struct sbx_docker *docker, struct cr_err *err)
{
    const struct sbx_docker_settings *settings = docker->settings;
    CR_AUTO_BUF struct cr_buf profile;
    int r;

    cr_buf_init(&profile, PROFILE_MAX);
    r = sbx_seccomp_json(&profile, err);
    if (r < 0)
        return r;
    docker->profile = cr_buf_take_str(&profile);
    docker->plan = (struct sbx_container_plan){
        .image = docker->image,
        .instance = settings->instance,
        .runtime = settings->runtime && *settings->runtime ? settings->runtime : NULL,
        .seccomp = docker->profile,
        .is_inside = docker->base.is_inferring,
    };
    if (docker->base.weakened != SBX_WEAKEN_NOTHING)
        docker->plan.left_out = UINT32_C(1) << docker->base.weakened;
    if (!docker->profile)
        return cr_err_set(err, ENOMEM, "out of memory for the profile");
    r = sbx_seccomp_build(&docker->filter_fd, err);
    return r == 0 ? sbx_weaken_filter(&docker->base, &docker->filter_fd, err) : r;
}

static int find_groups(struct sbx_docker *docker, struct cr_err *err)
{
    int r;

    if (docker->base.is_inferring) {
        sbx_cgroup_host_be_told(&docker->base.cgroups);
        return 0;
    }
    r = sbx_cgroup_host_find(&docker->base.cgroups, err);
    if (r == 0)
        sbx_cgroup_host_observe(&docker->base.cgroups);
    return r;
}

static int prepare(struct sbx_docker *docker, struct cr_err *err)
{
    int r = sbx_engine_new(docker->settings->socket, &docker->engine, err);

    if (r == 0)
        r = wait_for_engine(docker, err);
    if (r != 0)
        return r;
    r = sbx_docker_ask_info(docker, err);
    if (r == 0)
        r = find_groups(docker, err);
    if (r == 0)
        r = sbx_docker_sweep(docker->engine, docker->settings->instance, err);
    docker->base.counts[SBX_COUNT_SWEPT] = r > 0 ? (uint64_t)r : 0;
    if (r > 0)
        cr_log_info("removed containers that an earlier process left count=%d", r);
    if (r >= 0)
        r = sbx_docker_ensure_images(docker, err);
    return r < 0 ? r : make_plan(docker, err);
}

static void make_slots(struct sbx_docker *docker)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    uint64_t slots = docker->settings->slots;
    uint32_t count;

    if (slots == 0)
        slots = cores > 2 ? (uint64_t)cores : 2;
    count = slots > SBX_SLOTS_MAX ? SBX_SLOTS_MAX : (uint32_t)slots;
    for (uint32_t i = 0; i < count; i++) {
        sbx_docker_run_init(&docker->runs[i], i);
        sbx_backend_add_slot(&docker->base, &docker->runs[i].job);
    }
}

/* Where nobody can look into a container, nobody could tell what a run has left in it. */
static void make_sessions(struct sbx_docker *docker)
{
    const struct sbx_docker_settings *settings = docker->settings;

    if (settings->sessions == 0 || settings->session_life_ms == 0)
        return;
    if (docker->plan.is_inside) {
        cr_log_info("no sandboxes that live on: containers are read from inside");
        return;
    }
    docker->base.sessions.life_ms = (uint32_t)settings->session_life_ms;
    for (uint32_t i = 0; i < settings->sessions; i++) {
        sbx_docker_session_init(&docker->sessions[i]);
        sbx_sessions_add(&docker->base, &docker->sessions[i].base);
    }
}

static int open_loop(struct sbx_docker *docker, struct cr_err *err)
{
    int r = sbx_backend_open_loop(&docker->base, err);

    if (r < 0)
        return r;
    r = sbx_backend_watch(&docker->base, sbx_engine_fd(docker->engine), EPOLLIN,
                          SBX_DOCKER_WATCH_ENGINE, NULL);
    return r < 0 ? cr_err_sys(err, -r, "watch the docker engine") : 0;
}

int sbx_docker_start(const struct sbx_docker_settings *settings, struct sbx_docker *docker,
                     struct cr_err *err)
{
    struct sbx_capacity capacity;
    int r;

    *docker = (struct sbx_docker){.settings = settings, .filter_fd = -1};
    sbx_backend_init(&docker->base, &sbx_docker_ops);
    docker->base.features = SBX_FEATURES;
    r = sbx_weaken_parse(&settings->weaken, &docker->base.weakened, err);
    if (r == 0)
        r = sbx_backend_take_fds(&docker->base, "sandboxd-docker", settings->with_runtimes, err);
    if (r < 0)
        return r;
    sbx_backend_set_maxima(&docker->base, settings->maximum);
    /* What is left out of a box has to be its own run's. */
    r = sbx_docker_pool_init(&docker->pool,
                             docker->base.weakened == SBX_WEAKEN_NOTHING ? settings->pool : "0",
                             strcmp(settings->preload, "off") != 0, err);
    if (r == 0)
        r = prepare(docker, err);
    if (r == 0) {
        if (docker->plan.is_inside)
            sbx_docker_pool_keep_plain(&docker->pool);
        docker->base.pool_slots = docker->pool.slot_count;
        make_slots(docker);
        make_sessions(docker);
        sbx_sessions_judge(&docker->base);
        sbx_capacity_machine(&capacity); /* the engine's groups hold the runs, not ours */
        sbx_backend_share_memory(&docker->base, sbx_capacity_for_runs(capacity.memory_bytes));
        r = open_loop(docker, err);
    }
    if (r != 0)
        return r;
    sbx_backend_say_hello(&docker->base, BACKEND_DOCKER);
    cr_log_info("ready slots=%" PRIu32 " image=%s api=%s runtime=%s evidence=%s",
                docker->base.slot_count, docker->image, sbx_engine_version(docker->engine) + 1,
                docker->plan.runtime ? docker->plan.runtime : "default",
                docker->base.is_inferring ? "inside" : "outside");
    sbx_docker_pool_on_time(docker, cr_clock_mono_ns());
    return 0;
}

void sbx_docker_stop(struct sbx_docker *docker)
{
    docker->engine = sbx_engine_free(docker->engine);
    free(docker->profile);
    docker->profile = NULL;
    cr_close_fd(&docker->filter_fd);
    sbx_backend_close(&docker->base);
}
