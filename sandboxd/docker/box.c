/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/docker/box.h"

#include "common/auto.h"
#include "common/buf.h"
#include "common/clock.h"
#include "common/err.h"
#include "common/log.h"
#include "common/patience.h"
#include "sandboxd/docker/attach.h"
#include "sandboxd/docker/docker.h"
#include "sandboxd/docker/engine.h"
#include "sandboxd/docker/place.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include <sys/epoll.h>
#include <sys/pidfd.h>

#define CREATE_MS 20000
#define START_MS 30000
#define INSPECT_MS 10000
#define ATTACH_DEADLINE_NS (10 * CR_NS_PER_S)
#define BODY_MAX (256U << 10)

static void clear(struct sbx_docker_box *box)
{
    box->step = SBX_DOCKER_NOTHING;
    box->generation++;
    box->container[0] = '\0';
    box->attach_fd = -1;
    box->is_attach_asked = false;
    box->pidfd = -1;
    for (int i = 0; i < SBX_DOCKER_FOLDERS; i++)
        box->folder_fds[i] = -1;
    box->has_group = false;
    box->is_kept = false;
    box->is_frozen = false;
    box->must_renew = false;
    box->waiting = 0;
    box->relay = (struct sbx_relay)SBX_RELAY_INIT;
}

bool sbx_docker_has_ended(int pidfd)
{
    struct pollfd ended = {.fd = pidfd, .events = POLLIN};

    return poll(&ended, 1, 0) > 0;
}

void sbx_docker_box_init(struct sbx_docker_box *box, uint32_t place, struct sbx_docker_run *run)
{
    box->place = place;
    box->run = run;
    clear(box);
}

int sbx_docker_box_freeze(struct sbx_docker_box *box, bool is_frozen)
{
    const struct sbx_cgroup *group = &box->group;
    int r;

    if (box->is_frozen == is_frozen || !sbx_cgroup_can_freeze(group->host))
        return 0;
    if (is_frozen)
        sbx_cgroup_keep_frozen_one(group->host, sbx_cgroup_fd(group, SBX_CONTROLLER_FREEZER));
    r = sbx_cgroup_freeze(group, is_frozen);
    if (r == 0)
        box->is_frozen = is_frozen;
    else
        cr_log_warn("a container is not %s container=%.12s error=%s",
                    is_frozen ? "frozen" : "let go on", box->container, strerrordesc_np(-r));
    return r;
}

void sbx_docker_box_kill(struct sbx_docker_box *box)
{
    if (box->pidfd >= 0)
        (void)pidfd_send_signal(box->pidfd, SIGKILL, NULL, 0);
    (void)sbx_docker_box_freeze(box, false); /* or it would not hear of it */
}

void sbx_docker_box_drop(struct sbx_docker *docker, struct sbx_docker_box *box)
{
    sbx_backend_unwatch(&docker->base, box->attach_fd);
    sbx_relay_kill(&box->relay);
    (void)sbx_relay_reap(&box->relay);
    cr_close_fd(&box->attach_fd); /* a sandbox-init that waits for it ends itself */
    sbx_docker_box_kill(box);
    sbx_backend_unwatch(&docker->base, box->pidfd);
    cr_close_fd(&box->pidfd);
    if (box->has_group)
        sbx_cgroup_close(&box->group);
    for (int i = 0; i < SBX_DOCKER_FOLDERS; i++)
        cr_close_fd(&box->folder_fds[i]);
    if (box->container[0] && !docker->is_engine_lost)
        sbx_wreckage_add(docker, box->container);
    clear(box);
}

void sbx_docker_box_move(struct sbx_docker *docker, struct sbx_docker_box *from,
                         struct sbx_docker_box *to)
{
    const struct sbx_docker_box old = *to;

    sbx_backend_unwatch(&docker->base, from->attach_fd);
    sbx_backend_unwatch(&docker->base, from->pidfd);
    *to = *from;
    to->place = old.place;
    to->generation = old.generation;
    to->run = old.run;
    clear(from);
}

/* ---- the owner ---- */

static uint64_t tag_of(const struct sbx_docker_box *box)
{
    return (uint64_t)box->generation << 32 | box->place;
}

static void fail(struct sbx_docker *docker, struct sbx_docker_box *box, enum sbx_stage stage,
                 int error, const char *text)
{
    if (box->run)
        sbx_docker_run_on_not_made(docker, box->run, stage, error, text);
    else
        sbx_docker_pool_on_not_made(docker, box, text);
}

/* Who waits for the hijack has a deadline for it: it is no call. */
static void set_deadline(struct sbx_docker_box *box, int64_t deadline_ns)
{
    if (box->run)
        box->run->job.deadline_ns = deadline_ns; /* a slot has one for all of it */
}

/* False when it ended meanwhile, whatever its owner made of it since. */
static bool is_still(struct sbx_docker *docker, uint64_t tag)
{
    return sbx_docker_box_at(docker, (uint32_t)(tag & 0xff))->generation == (uint32_t)(tag >> 32);
}

static bool is_unwanted(const struct sbx_docker_box *box)
{
    return box->run && box->run->job.facts.event_count > 0;
}

/*
 * True when the answer is `status`. Else the box is over: refused by the
 * engine, or the engine itself is gone.
 */
static bool is_good(struct sbx_docker *docker, struct sbx_docker_box *box,
                    const struct sbx_engine_answer *answer, long status, enum sbx_stage stage)
{
    uint64_t tag = tag_of(box);

    if (answer->error != 0 && answer->is_gone)
        sbx_docker_lose_engine(docker, answer->text); /* ends this with the others */
    if (!is_still(docker, tag))
        return false;
    if (answer->error != 0 || answer->status != status || is_unwanted(box)) {
        fail(docker, box, stage, answer->error ? answer->error : EIO, answer->text);
        return false;
    }
    return true;
}

/* ---- steps ---- */

/* Steps have no turnings: one after the other, or the end. */
static void go_on(struct sbx_docker_box *box, enum sbx_docker_step step, int64_t deadline_ns)
{
    assert(box->step == step - 1);
    cr_log_debug("box is made place=%" PRIu32 " step=%u container=%.12s", box->place, step,
                 box->container);
    box->step = step;
    set_deadline(box, deadline_ns);
}

/* The box that a call was for, unless it is over. */
static struct sbx_docker_box *find(struct sbx_docker *docker, uint64_t tag,
                                   enum sbx_docker_step step)
{
    struct sbx_docker_box *box = sbx_docker_box_at(docker, (uint32_t)(tag & 0xff));

    return box->generation == (uint32_t)(tag >> 32) && box->step == step ? box : NULL;
}

static void call(struct sbx_docker *docker, struct sbx_docker_box *box,
                 const struct sbx_engine_request *request, sbx_engine_on_answer on_answer)
{
    int r = sbx_engine_call(docker->engine, request, on_answer, docker, tag_of(box));

    if (r < 0)
        fail(docker, box, SBX_STAGE_CLONE, -r, "out of memory for a call");
}

static int watch_attach(struct sbx_docker *docker, const struct sbx_docker_box *box,
                        uint32_t events)
{
    return box->run
               ? sbx_backend_watch(&docker->base, box->attach_fd, events, SBX_DOCKER_WATCH_ATTACH,
                                   &box->run->job)
               : sbx_backend_watch(&docker->base, box->attach_fd, events,
                                   SBX_DOCKER_WATCH_POOL_ATTACH + box->place - SBX_SLOTS_MAX, NULL);
}

/* ---- the box is there, with nothing but sandbox-init in it ---- */

static struct sbx_container_plan plan_of(const struct sbx_docker *docker,
                                         const struct sbx_docker_box *box)
{
    struct sbx_container_plan plan = docker->plan;

    plan.image = box->image;
    return plan;
}

static int open_box(struct sbx_docker *docker, struct sbx_docker_box *box, const char *inspected,
                    struct cr_err *err)
{
    const struct sbx_container_plan plan = plan_of(docker, box);
    pid_t pid = 0;
    int r = sbx_container_check(&plan, &box->limits, inspected, &pid, err);

    if (r < 0)
        return r;
    if (docker->plan.is_inside)
        return pid > 0 ? 0
                       : cr_err_set(err, ESRCH, "the container ended as soon as it was started");
    r = sbx_place_open(&docker->base.cgroups, pid, box, err);
    return r < 0 ? r : sbx_cgroup_arm(&box->group, err);
}

static void on_inspected(void *user, uint64_t tag, const struct sbx_engine_answer *answer)
{
    struct sbx_docker *docker = user;
    struct sbx_docker_box *box = find(docker, tag, SBX_DOCKER_INSPECTING);
    struct cr_err err = CR_ERR_INIT;

    if (!box || !is_good(docker, box, answer, 200, SBX_STAGE_CLONE))
        return;
    if (open_box(docker, box, answer->body, &err) < 0) {
        fail(docker, box, SBX_STAGE_CGROUP, -err.code, err.text);
        return;
    }
    go_on(box, SBX_DOCKER_MADE, INT64_MAX);
    if (box->run)
        sbx_docker_run_on_made(docker, box->run);
    else
        sbx_docker_pool_on_made(docker, box);
}

static void on_started(void *user, uint64_t tag, const struct sbx_engine_answer *answer)
{
    struct sbx_docker *docker = user;
    struct sbx_docker_box *box = find(docker, tag, SBX_DOCKER_STARTING);
    char path[128];
    const struct sbx_engine_request request = {
        .method = "GET", .path = path, .deadline_ms = INSPECT_MS};

    if (!box || !is_good(docker, box, answer, 204, SBX_STAGE_INIT))
        return;
    (void)snprintf(path, sizeof(path), "/containers/%s/json", box->container);
    go_on(box, SBX_DOCKER_INSPECTING, INT64_MAX);
    call(docker, box, &request, on_inspected);
}

/* ---- the container is there ---- */

/* The hijack is no call of engine.c: whether the engine itself is gone is told apart here. */
static void fail_attach(struct sbx_docker *docker, struct sbx_docker_box *box, int error,
                        const char *text)
{
    uint64_t tag = tag_of(box);

    if (error == ECONNREFUSED || error == ECONNRESET || error == EPIPE || error == ENOENT)
        sbx_docker_lose_engine(docker, text); /* ends this with the others */
    if (is_still(docker, tag))
        fail(docker, box, SBX_STAGE_CLONE, error, text);
}

/* The socket is connected, or has failed to. */
static void ask_to_attach(struct sbx_docker *docker, struct sbx_docker_box *box)
{
    struct cr_err err = CR_ERR_INIT;
    int r =
        sbx_attach_ask(box->attach_fd, sbx_engine_version(docker->engine), box->container, &err);

    box->is_attach_asked = true;
    if (r == 0)
        r = watch_attach(docker, box, EPOLLIN);
    if (r < 0)
        fail_attach(docker, box, -r, err.text);
}

void sbx_docker_box_on_attach(struct sbx_docker *docker, struct sbx_docker_box *box)
{
    struct cr_err err = CR_ERR_INIT;
    char path[128];
    const struct sbx_engine_request request = {
        .method = "POST", .path = path, .deadline_ms = START_MS};
    int r;

    if (box->step != SBX_DOCKER_ATTACHING)
        return;
    if (!box->is_attach_asked) {
        ask_to_attach(docker, box);
        return;
    }
    r = sbx_attach_end(box->attach_fd, &err);
    if (r == -EAGAIN)
        return;
    sbx_backend_unwatch(&docker->base, box->attach_fd);
    if (r < 0 || is_unwanted(box)) {
        fail_attach(docker, box, -r, err.text);
        return;
    }
    (void)snprintf(path, sizeof(path), "/containers/%s/start", box->container);
    go_on(box, SBX_DOCKER_STARTING, INT64_MAX);
    call(docker, box, &request, on_started);
}

/* Before it is started: what it says earlier than that would be lost. */
static void attach(struct sbx_docker *docker, struct sbx_docker_box *box)
{
    struct cr_err err = CR_ERR_INIT;
    int r;

    box->attach_fd = sbx_attach_begin(sbx_engine_address(docker->engine), &err);
    r = box->attach_fd < 0 ? box->attach_fd : watch_attach(docker, box, EPOLLOUT);
    if (r < 0) {
        fail_attach(docker, box, -r, err.text);
        return;
    }
    go_on(box, SBX_DOCKER_ATTACHING, cr_clock_mono_ns() + cr_patience_ns(ATTACH_DEADLINE_NS));
}

/* Its owner went before it was there. */
static void drop_container(struct sbx_docker *docker, const struct sbx_engine_answer *answer)
{
    char id[SBX_CONTAINER_ID_SIZE];

    if (answer->error == 0 && answer->status == 201 && sbx_container_id(answer->body, id) == 0)
        sbx_wreckage_add(docker, id);
}

static void on_created(void *user, uint64_t tag, const struct sbx_engine_answer *answer)
{
    struct sbx_docker *docker = user;
    struct sbx_docker_box *box = find(docker, tag, SBX_DOCKER_CREATING);

    if (answer->error == 0 && answer->status == 404) {
        cr_log_error("an image of the sandboxes was removed, starting anew to make it image=%s",
                     box ? box->image : docker->image);
        sbx_backend_begin_stop(&docker->base, "the image is gone");
    }
    if (!box) {
        drop_container(docker, answer);
        return;
    }
    if (answer->error == 0 && answer->status == 201 &&
        sbx_container_id(answer->body, box->container) < 0) {
        fail(docker, box, SBX_STAGE_CLONE, EPROTO, "the docker engine gives no container id");
        return;
    }
    if (is_good(docker, box, answer, 201, SBX_STAGE_CLONE))
        attach(docker, box);
}

void sbx_docker_box_begin(struct sbx_docker *docker, struct sbx_docker_box *box, const char *image,
                          const struct sbx_limits *limits)
{
    struct sbx_container_plan plan;
    CR_AUTO_BUF struct cr_buf body;
    struct cr_err err = CR_ERR_INIT;
    struct sbx_engine_request request = {
        .method = "POST", .path = "/containers/create", .deadline_ms = CREATE_MS};

    clear(box);
    box->image = image;
    box->limits = *limits;
    plan = plan_of(docker, box);
    cr_buf_init(&body, BODY_MAX);
    if (sbx_container_body(&plan, limits, &body, &err) < 0) {
        fail(docker, box, SBX_STAGE_CLONE, -err.code, err.text);
        return;
    }
    request.body = cr_buf_str(&body);
    request.body_size = body.size;
    go_on(box, SBX_DOCKER_CREATING, INT64_MAX);
    call(docker, box, &request, on_created);
}
