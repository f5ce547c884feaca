/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/buf.h"
#include "common/err.h"
#include "common/log.h"
#include "sandboxd/backend/gaps.h"
#include "sandboxd/backend/process.h"
#include "sandboxd/backend/seccomp.h"
#include "sandboxd/docker/docker.h"
#include "sandboxd/docker/engine.h"
#include "sandboxd/docker/json.h"
#include "sandboxd/docker/seccomp_json.h"
#include "sandboxd/runtimes/table.h"

#include <inttypes.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include <sys/epoll.h>

#define BACKEND_DOCKER 2 /* crisol.sandbox.v1.Backend */
#define INFO_MS 15000
#define ANSWER_MAX (1U << 20)
#define PROFILE_MAX (64U << 10)
#define WAIT_MS 250

static void set_maxima(const struct sbx_docker_settings *settings, struct sbx_limits *maximum)
{
    *maximum = sbx_maximum_limits;
    for (int i = 0; i < SBX_LIMIT_COUNT; i++) {
        if (settings->maximum[i] > 0)
            maximum->value[i] = settings->maximum[i];
    }
}

/* ---- the engine ---- */

/* Returns 1 when the supervisor went away meanwhile. */
static int wait_for_engine(struct sbx_docker *docker, struct cr_err *err)
{
    struct pollfd lifeline = {.fd = docker->lifeline_fd, .events = POLLIN};
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
static void judge(const cJSON *info, uint8_t controls[SBX_CONTROL_COUNT])
{
    memset(controls, SBX_ENFORCED, SBX_CONTROL_COUNT);
    controls[SBX_CONTROL_USER] = SBX_PARTIAL;  /* the ids are those of the host */
    controls[SBX_CONTROL_PROC] = SBX_PARTIAL;  /* masked, but there; and so is /sys, read-only */
    controls[SBX_CONTROL_TMPFS] = SBX_PARTIAL; /* /dev/shm has no limit of inodes */
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
    judge(info, docker->controls);
    return sbx_gaps_check_all(docker->controls, docker->settings->accept_gaps, err);
}

static int ensure_image(struct sbx_docker *docker, struct cr_err *err)
{
    const struct sbx_docker_settings *settings = docker->settings;
    const struct sbx_image_plan plan = {
        .image = settings->image,
        .base = settings->base,
        .may_pull = strcmp(settings->pull, "missing") == 0,
        .init_path = settings->init_path,
    };

    return sbx_image_ensure(docker->engine, &plan, docker->image, err);
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
    };
    return docker->profile ? sbx_seccomp_build(&docker->filter_fd, err)
                           : cr_err_set(err, ENOMEM, "out of memory for the profile");
}

static int prepare(struct sbx_docker *docker, struct cr_err *err)
{
    int r = sbx_cgroup_host_find(&docker->cgroups, err);

    if (r < 0)
        return r;
    sbx_cgroup_host_observe(&docker->cgroups);
    r = sbx_engine_new(docker->settings->socket, &docker->engine, err);
    if (r == 0)
        r = wait_for_engine(docker, err);
    if (r == 0)
        r = sbx_docker_ask_info(docker, err);
    if (r == 0)
        r = sbx_docker_sweep(docker->engine, docker->settings->instance, err);
    if (r > 0)
        cr_log_info("removed containers that an earlier process left count=%d", r);
    if (r >= 0)
        r = ensure_image(docker, err);
    return r < 0 ? r : make_plan(docker, err);
}

static void make_slots(struct sbx_docker *docker)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    uint64_t slots = docker->settings->slots;

    if (slots == 0)
        slots = cores > 2 ? (uint64_t)cores : 2;
    docker->slot_count = slots > SBX_DOCKER_SLOTS_MAX ? SBX_DOCKER_SLOTS_MAX : (uint32_t)slots;
    for (uint32_t i = 0; i < docker->slot_count; i++)
        sbx_docker_run_init(&docker->runs[i], i);
}

static int open_loop(struct sbx_docker *docker, struct cr_err *err)
{
    int r;

    docker->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (docker->epoll_fd < 0)
        return cr_err_sys(err, errno, "open epoll");
    r = sbx_docker_watch(docker, docker->link.fd, EPOLLIN, SBX_DOCKER_WATCH_FRONT, NULL);
    if (r == 0)
        r = sbx_docker_watch(docker, docker->lifeline_fd, EPOLLIN, SBX_DOCKER_WATCH_LIFELINE, NULL);
    if (r == 0)
        r = sbx_docker_watch(docker, sbx_engine_fd(docker->engine), EPOLLIN,
                             SBX_DOCKER_WATCH_ENGINE, NULL);
    return r < 0 ? cr_err_sys(err, -r, "watch the sockets") : 0;
}

static void send_hello(struct sbx_docker *docker)
{
    size_t runtime_count;
    union sbx_msg msg;

    (void)sbx_runtimes(&runtime_count);
    sbx_msg_init(&msg, SBX_MSG_HELLO, 0);
    msg.hello.backend = BACKEND_DOCKER;
    msg.hello.slots = docker->slot_count;
    msg.hello.runtime_count = (uint32_t)runtime_count;
    docker->link.cgroup_version = docker->cgroups.ops->version;
    msg.hello.cgroup_version = docker->link.cgroup_version;
    msg.hello.runtime_digest = sbx_runtimes_digest();
    msg.hello.maximum = docker->link.maximum;
    memcpy(msg.hello.controls, docker->controls, sizeof(msg.hello.controls));
    sbx_docker_send(docker, &msg);
}

int sbx_docker_start(const struct sbx_docker_settings *settings, struct sbx_docker *docker,
                     struct cr_err *err)
{
    int r;

    *docker = (struct sbx_docker){
        .settings = settings,
        .epoll_fd = -1,
        .link = {.fd = -1, .ops = &sbx_docker_link_ops, .user = docker},
        .lifeline_fd = -1,
        .filter_fd = -1,
    };
    for (int i = 0; i < SBX_CONTROLLER_COUNT; i++) {
        docker->cgroups.own_fds[i] = -1;
        docker->cgroups.base_fds[i] = -1;
    }
    r = sbx_process_take_fds("sandboxd-docker", &docker->link.fd, &docker->lifeline_fd, err);
    if (r == 0)
        r = sbx_process_block_signals(err);
    if (r < 0)
        return r;
    set_maxima(settings, &docker->link.maximum);
    r = prepare(docker, err);
    if (r == 0) {
        make_slots(docker);
        r = open_loop(docker, err);
    }
    if (r != 0)
        return r;
    send_hello(docker);
    cr_log_info("ready slots=%" PRIu32 " image=%s api=%s runtime=%s", docker->slot_count,
                docker->image, sbx_engine_version(docker->engine) + 1,
                docker->plan.runtime ? docker->plan.runtime : "default");
    return 0;
}

void sbx_docker_stop(struct sbx_docker *docker)
{
    docker->engine = sbx_engine_free(docker->engine);
    sbx_cgroup_host_close(&docker->cgroups);
    free(docker->profile);
    docker->profile = NULL;
    cr_close_fd(&docker->filter_fd);
    cr_close_fd(&docker->epoll_fd);
    cr_close_fd(&docker->link.fd);
    cr_close_fd(&docker->lifeline_fd);
}
