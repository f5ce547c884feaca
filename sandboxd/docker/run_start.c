/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/buf.h"
#include "common/clock.h"
#include "common/err.h"
#include "common/log.h"
#include "sandboxd/docker/attach.h"
#include "sandboxd/docker/docker.h"
#include "sandboxd/docker/engine.h"
#include "sandboxd/docker/place.h"
#include "sandboxd/docker/run.h"
#include "sandboxd/init/program.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <sys/epoll.h>

#define CREATE_MS 20000
#define START_MS 30000
#define INSPECT_MS 10000
#define COLLECT_FD 4 /* of the fds of RUN */
#define ATTACH_DEADLINE_NS (10 * CR_NS_PER_S)
#define BODY_MAX (256U << 10)

/* Nobody was told STARTED, and the program never ran. */
static void give_up(struct sbx_docker *docker, struct sbx_docker_run *run, enum sbx_stage stage,
                    int error, const char *text)
{
    if (run->job.facts.event_count == 0) { /* else it was cancelled meanwhile */
        cr_log_error("cannot start a box run=%" PRIu64 " step=%s error=\"%s\"", run->job.id,
                     sbx_stage_name(stage), text);
        run->job.facts.stage = stage;
        run->job.facts.error = error;
    }
    sbx_job_finish(&docker->base, &run->job);
}

/*
 * True when the answer is `status`. Else the run is over: refused by the
 * engine, or the engine itself is gone.
 */
static bool is_good(struct sbx_docker *docker, struct sbx_docker_run *run,
                    const struct sbx_engine_answer *answer, long status, enum sbx_stage stage)
{
    if (answer->error != 0 && answer->is_gone) {
        sbx_docker_lose_engine(docker, answer->text); /* ends this run with the others */
        if (run->job.state != SBX_JOB_FREE)
            sbx_job_finish(&docker->base, &run->job);
        return false;
    }
    if (answer->error != 0 || answer->status != status || run->job.facts.event_count > 0) {
        give_up(docker, run, stage, answer->error ? answer->error : EIO, answer->text);
        return false;
    }
    return true;
}

static bool is_at(const struct sbx_docker_run *run, enum sbx_docker_step step)
{
    return run->job.state == SBX_JOB_STARTING && run->step == step;
}

/* Steps have no turnings: one after the other, or the end. */
static void go_on(struct sbx_docker_run *run, enum sbx_docker_step step, int64_t deadline_ns)
{
    assert(is_at(run, step - 1));
    cr_log_debug("run starts run=%" PRIu64 " step=%u container=%.12s", run->job.id, step,
                 run->container);
    run->step = step;
    run->job.deadline_ns = deadline_ns;
}

/* The run that a call was for, unless it is over. */
static struct sbx_docker_run *find(struct sbx_docker *docker, uint64_t tag,
                                   enum sbx_docker_step step)
{
    struct sbx_docker_run *run = &docker->runs[tag & 0xff];

    return run->job.generation == (uint32_t)(tag >> 32) && is_at(run, step) ? run : NULL;
}

static uint64_t tag_of(const struct sbx_docker_run *run)
{
    return (uint64_t)run->job.generation << 32 | run->job.slot;
}

static void call(struct sbx_docker *docker, struct sbx_docker_run *run,
                 const struct sbx_engine_request *request, sbx_engine_on_answer on_answer)
{
    int r = sbx_engine_call(docker->engine, request, on_answer, docker, tag_of(run));

    if (r < 0)
        give_up(docker, run, SBX_STAGE_CLONE, -r, "out of memory for a call");
}

/* ---- the box is there, with nothing but sandbox-init in it ---- */

static int open_box(struct sbx_docker *docker, struct sbx_docker_run *run, const char *inspected,
                    struct cr_err *err)
{
    pid_t pid = 0;
    int r = sbx_container_check(&docker->plan, &run->job.limits, inspected, &pid, err);

    if (r == 0 && run->is_inside) {
        sbx_cgroup_open_told(&docker->base.cgroups, &run->told.usage, &run->job.group);
        run->job.has_group = true;
        return pid > 0 ? 0
                       : cr_err_set(err, ESRCH, "the container ended as soon as it was started");
    }
    if (r == 0)
        r = sbx_place_open(&docker->base.cgroups, pid, run, err);
    return r < 0 ? r : sbx_cgroup_arm(&run->job.group, err);
}

static int start_relay(struct sbx_docker *docker, struct sbx_docker_run *run, struct cr_err *err)
{
    const struct sbx_relay_plan plan = {
        .stdio_fds = {run->job.fds[1], run->job.fds[2], run->job.fds[3]},
        .socket_fd = run->attach_fd,
        .payload_fd = run->job.fds[0],
        .filter_fd = docker->filter_fd,
        .folder_fd = run->folder_fds[SBX_DOCKER_WORKSPACE],
        .collect_fd = run->is_inside ? run->job.fds[COLLECT_FD] : -1,
        .file_size_bytes = run->job.limits.value[SBX_LIMIT_FILE_SIZE],
        .uid = (uid_t)docker->settings->relay_user,
        .gid = SBX_PROGRAM_GID,
    };
    int r = sbx_relay_start(&plan, &run->relay, err);

    if (r < 0)
        return r;
    run->job.control_fd = cr_take_fd(&run->relay.control_fd);
    /* Only the relay holds these from now on: their end is its end. */
    for (int i = 1; i <= 3; i++)
        cr_close_fd(&run->job.fds[i]);
    cr_close_fd(&run->attach_fd);
    return 0;
}

static int watch_box(struct sbx_docker *docker, struct sbx_docker_run *run, struct cr_err *err)
{
    struct sbx_backend *base = &docker->base;
    int r = sbx_job_watch(base, &run->job);

    if (r == 0)
        r = sbx_backend_watch(base, run->relay.pidfd, EPOLLIN, SBX_DOCKER_WATCH_RELAY, &run->job);
    if (r == 0 && !run->is_inside)
        r = sbx_backend_watch(base, run->box_pidfd, EPOLLIN, SBX_DOCKER_WATCH_BOX, &run->job);
    return r < 0 ? cr_err_sys(err, -r, "watch a box") : 0;
}

static void on_inspected(void *user, uint64_t tag, const struct sbx_engine_answer *answer)
{
    struct sbx_docker *docker = user;
    struct sbx_docker_run *run = find(docker, tag, SBX_DOCKER_INSPECTING);
    struct cr_err err = CR_ERR_INIT;
    int r;

    if (!run || !is_good(docker, run, answer, 200, SBX_STAGE_CLONE))
        return;
    r = open_box(docker, run, answer->body, &err);
    if (r < 0) {
        give_up(docker, run, SBX_STAGE_CGROUP, -r, err.text);
        return;
    }
    r = start_relay(docker, run, &err);
    if (r == 0)
        r = watch_box(docker, run, &err);
    if (r < 0) {
        sbx_relay_kill(&run->relay);
        give_up(docker, run, SBX_STAGE_CLONE, -r, err.text);
        return;
    }
    sbx_job_prepare(&run->job);
}

static void on_started(void *user, uint64_t tag, const struct sbx_engine_answer *answer)
{
    struct sbx_docker *docker = user;
    struct sbx_docker_run *run = find(docker, tag, SBX_DOCKER_STARTING);
    char path[128];
    const struct sbx_engine_request request = {
        .method = "GET", .path = path, .deadline_ms = INSPECT_MS};

    if (!run || !is_good(docker, run, answer, 204, SBX_STAGE_INIT))
        return;
    (void)snprintf(path, sizeof(path), "/containers/%s/json", run->container);
    go_on(run, SBX_DOCKER_INSPECTING, INT64_MAX);
    call(docker, run, &request, on_inspected);
}

/* ---- the container is there ---- */

/* The hijack is no call of engine.c: whether the engine itself is gone is told apart here. */
static void fail_attach(struct sbx_docker *docker, struct sbx_docker_run *run, int error,
                        const char *text)
{
    if (error == ECONNREFUSED || error == ECONNRESET || error == EPIPE || error == ENOENT)
        sbx_docker_lose_engine(docker, text); /* ends this run with the others */
    if (run->job.state != SBX_JOB_FREE)
        give_up(docker, run, SBX_STAGE_CLONE, error, text);
}

/* The socket is connected, or has failed to. */
static void ask_to_attach(struct sbx_docker *docker, struct sbx_docker_run *run)
{
    struct cr_err err = CR_ERR_INIT;
    int r =
        sbx_attach_ask(run->attach_fd, sbx_engine_version(docker->engine), run->container, &err);

    run->is_attach_asked = true;
    if (r == 0)
        r = sbx_backend_watch(&docker->base, run->attach_fd, EPOLLIN, SBX_DOCKER_WATCH_ATTACH,
                              &run->job);
    if (r < 0)
        fail_attach(docker, run, -r, err.text);
}

void sbx_docker_run_on_attach(struct sbx_docker *docker, struct sbx_docker_run *run)
{
    struct cr_err err = CR_ERR_INIT;
    char path[128];
    const struct sbx_engine_request request = {
        .method = "POST", .path = path, .deadline_ms = START_MS};
    int r;

    if (!is_at(run, SBX_DOCKER_ATTACHING))
        return;
    if (!run->is_attach_asked) {
        ask_to_attach(docker, run);
        return;
    }
    r = sbx_attach_end(run->attach_fd, &err);
    if (r == -EAGAIN)
        return;
    (void)epoll_ctl(docker->base.epoll_fd, EPOLL_CTL_DEL, run->attach_fd, NULL);
    if (r < 0 || run->job.facts.event_count > 0) {
        fail_attach(docker, run, -r, err.text);
        return;
    }
    (void)snprintf(path, sizeof(path), "/containers/%s/start", run->container);
    go_on(run, SBX_DOCKER_STARTING, INT64_MAX);
    call(docker, run, &request, on_started);
}

/* Before it is started: what it says earlier than that would be lost. */
static void attach(struct sbx_docker *docker, struct sbx_docker_run *run)
{
    struct cr_err err = CR_ERR_INIT;
    int r;

    run->attach_fd = sbx_attach_begin(sbx_engine_address(docker->engine), &err);
    r = run->attach_fd < 0 ? run->attach_fd
                           : sbx_backend_watch(&docker->base, run->attach_fd, EPOLLOUT,
                                               SBX_DOCKER_WATCH_ATTACH, &run->job);
    if (r < 0) {
        fail_attach(docker, run, -r, err.text);
        return;
    }
    go_on(run, SBX_DOCKER_ATTACHING, cr_clock_mono_ns() + ATTACH_DEADLINE_NS);
}

/* The run ended before its container was made. */
static void drop_container(struct sbx_docker *docker, const struct sbx_engine_answer *answer)
{
    char id[SBX_CONTAINER_ID_SIZE];

    if (answer->error == 0 && answer->status == 201 && sbx_container_id(answer->body, id) == 0)
        sbx_wreckage_add(docker, id);
}

static void on_created(void *user, uint64_t tag, const struct sbx_engine_answer *answer)
{
    struct sbx_docker *docker = user;
    struct sbx_docker_run *run = find(docker, tag, SBX_DOCKER_CREATING);

    if (answer->error == 0 && answer->status == 404) {
        cr_log_error("the image of the sandboxes was removed, starting anew to make it image=%s",
                     docker->image);
        sbx_backend_begin_stop(&docker->base, "the image is gone");
    }
    if (!run) {
        drop_container(docker, answer);
        return;
    }
    if (answer->error == 0 && answer->status == 201 &&
        sbx_container_id(answer->body, run->container) < 0) {
        give_up(docker, run, SBX_STAGE_CLONE, EPROTO, "the docker engine gives no container id");
        return;
    }
    if (is_good(docker, run, answer, 201, SBX_STAGE_CLONE))
        attach(docker, run);
}

static void create(struct sbx_docker *docker, struct sbx_docker_run *run)
{
    CR_AUTO_BUF struct cr_buf body;
    struct cr_err err = CR_ERR_INIT;
    struct sbx_engine_request request = {
        .method = "POST", .path = "/containers/create", .deadline_ms = CREATE_MS};
    int r;

    cr_buf_init(&body, BODY_MAX);
    r = sbx_container_body(&docker->plan, &run->job.limits, &body, &err);
    if (r < 0) {
        give_up(docker, run, SBX_STAGE_CLONE, -r, err.text);
        return;
    }
    request.body = cr_buf_str(&body);
    request.body_size = body.size;
    call(docker, run, &request, on_created);
}

/* ---- the steps of the backend ---- */

static void reset(struct sbx_docker_run *run)
{
    run->step = SBX_DOCKER_CREATING;
    run->container[0] = '\0';
    run->attach_fd = -1;
    run->box_pidfd = -1;
    for (int i = 0; i < SBX_DOCKER_FOLDERS; i++)
        run->folder_fds[i] = -1;
    run->relay = (struct sbx_relay)SBX_RELAY_INIT;
    run->is_attach_asked = false;
    run->is_inside = false;
    run->told = (struct sbx_docker_told){.workspace_bytes = 0};
    run->answer_ns = INT64_MAX;
}

void sbx_docker_run_init(struct sbx_docker_run *run, uint32_t slot)
{
    sbx_job_init(&run->job, slot);
    reset(run);
}

/* Each call has a deadline of its own. */
void sbx_docker_run_start(struct sbx_backend *backend, struct sbx_job *job)
{
    reset(sbx_docker_run_of(job));
    sbx_docker_run_of(job)->is_inside = sbx_docker_of(backend)->plan.is_inside;
    create(sbx_docker_of(backend), sbx_docker_run_of(job));
}

/* What has no call is the hijack. */
void sbx_docker_run_on_start_time(struct sbx_backend *backend, struct sbx_job *job)
{
    cr_log_error("the docker engine does not attach in time run=%" PRIu64, job->id);
    sbx_job_fail_start(backend, job, SBX_STAGE_CLONE, ETIMEDOUT);
}

/* A call is in flight, and its answer ends the run; unless none comes any more. */
void sbx_docker_run_on_start_cancelled(struct sbx_backend *backend, struct sbx_job *job)
{
    if (sbx_docker_of(backend)->is_engine_lost)
        sbx_job_finish(backend, job);
}
