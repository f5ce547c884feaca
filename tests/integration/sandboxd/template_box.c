/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/integration/sandboxd/template_box.h"

#include "common/auto.h"
#include "common/buf.h"
#include "common/clock.h"
#include "common/err.h"
#include "common/log.h"
#include "sandboxd/backend/userns.h"
#include "sandboxd/native/native.h"
#include "sandboxd/native/needs.h"
#include "sandboxd/runtimes/table.h"
#include "sandboxd/wire/boxctl.h"
#include "sandboxd/wire/fds.h"
#include "sandboxd/wire/payload.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <sys/socket.h>
#include <sys/wait.h>

/* Above what a sandboxd on the same machine uses by default, and each process its own. */
#define UID_BASE UINT32_C(0x78000000)
#define UID_RANGE (16U * SBX_USERNS_RANGE)
#define UID_RANGES 500U

struct template_box box;
struct template_box neighbour;

/* What the backend would hold. */
static struct sbx_native native;

static struct sbx_template_host host = {.image_fd = -1, .userns_fd = -1};

static struct sbx_template templates[SBX_TEMPLATE_KIND_COUNT];

static uint32_t next_group = 1;

void template_assert_ok(int r, const struct cr_err *err)
{
    if (r < 0)
        fail_msg("%d %s", r, err->text);
}

int template_set_up(void **state)
{
    struct sbx_native_settings settings = {
        .slots = TEMPLATE_PLACES,
        .uid_base = UID_BASE + (uint32_t)getpid() % UID_RANGES * UID_RANGE,
        .init_path = (char[]){SANDBOX_INIT},
    };
    struct cr_err err = CR_ERR_INIT;

    (void)state;
    cr_log_setup("template_test", CR_LOG_INFO, CR_LOG_TEXT);
    for (size_t i = 0; i < CR_ARRAY_SIZE(templates); i++)
        templates[i] = (struct sbx_template)SBX_TEMPLATE_INIT;
    sbx_native_init(&settings, &native);
    template_assert_ok(sbx_template_image_load(TEMPLATE_IMAGE, &host.image_fd, &err), &err);
    template_assert_ok(sbx_template_userns_make((uint32_t)settings.uid_base, TEMPLATE_PLACES,
                                                &host.userns_fd, &err),
                       &err);
    template_assert_ok(sbx_needs_meet(&settings, &native, &err), &err);
    host.init_fd = native.init_fd;
    host.seccomp_fd = native.seccomp_fd;
    host.places = TEMPLATE_PLACES;
    return 0;
}

int template_tear_down(void **state)
{
    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(templates); i++)
        sbx_template_stop(&templates[i]);
    cr_close_fd(&host.image_fd);
    cr_close_fd(&host.userns_fd);
    sbx_native_stop(&native);
    return 0;
}

struct sbx_template_event template_await(struct sbx_template *template)
{
    struct pollfd watch = {.fd = template->fd, .events = POLLIN};
    struct sbx_template_event event = {.pidfd = -1};

    assert_int_equal(poll(&watch, 1, TEMPLATE_DEADLINE_MS), 1);
    assert_int_equal(sbx_template_receive(template, &event), 0);
    return event;
}

/* The template of that kind, started when there is none. */
struct sbx_template *template_get(enum sbx_template_kind kind)
{
    struct sbx_template *template = &templates[kind];
    struct cr_err err = CR_ERR_INIT;

    if (template->pid > 0)
        return template;
    template_assert_ok(sbx_template_start(&host, kind, template, &err), &err);
    assert_int_equal(template_await(template).kind, SBX_TEMPLATE_EVENT_READY);
    return template;
}

void template_stop(enum sbx_template_kind kind)
{
    sbx_template_stop(&templates[kind]);
}

static void receive(const struct template_box *of, uint32_t event, struct sbx_init_msg *ret_msg)
{
    struct pollfd watch = {.fd = of->control_fd, .events = POLLIN};

    assert_int_equal(poll(&watch, 1, TEMPLATE_DEADLINE_MS), 1);
    assert_int_equal(recv(of->control_fd, ret_msg, sizeof(*ret_msg), 0), sizeof(*ret_msg));
    if (ret_msg->event != event)
        fail_msg("event %u instead of %u, stage %s, errno %d", ret_msg->event, event,
                 sbx_stage_name(ret_msg->stage), ret_msg->error);
}

/* Up to WAITING. */
void template_box_make(enum sbx_template_kind kind, uint32_t slot, struct template_box *ret_box)
{
    struct sbx_template *template = template_get(kind);
    const struct sbx_limits *limits = &sbx_default_limits;
    uid_t owner = native.uid_base + slot * SBX_USERNS_RANGE + SBX_USERNS_PROGRAM_ID;
    struct cr_err err = CR_ERR_INIT;
    struct sbx_template_event event;
    struct sbx_init_msg msg;

    *ret_box = (struct template_box){.kind = kind, .slot = slot, .number = next_group++};
    template_assert_ok(sbx_cgroup_make(&native.base.cgroups, ret_box->number, &err), &err);
    template_assert_ok(
        sbx_cgroup_open(&native.base.cgroups, ret_box->number, &ret_box->group, &err), &err);
    template_assert_ok(sbx_cgroup_open_files(&ret_box->group, &err), &err);
    template_assert_ok(sbx_cgroup_limit(&ret_box->group, limits, &err), &err);
    template_assert_ok(sbx_workspace_make(limits->value[SBX_LIMIT_WORKSPACE_BYTES],
                                          limits->value[SBX_LIMIT_WORKSPACE_INODES], owner,
                                          &ret_box->workspace_fd, &err),
                       &err);
    template_assert_ok(
        sbx_template_ask(template,
                         &(struct sbx_template_box){.group = &ret_box->group,
                                                    .limits = limits,
                                                    .workspace_fd = ret_box->workspace_fd,
                                                    .place = slot,
                                                    .id = ret_box->number},
                         &ret_box->control_fd, &err),
        &err);
    event = template_await(template);
    assert_int_equal(event.error, 0);
    assert_int_equal(event.id, ret_box->number);
    ret_box->pidfd = event.pidfd;
    ret_box->pid = event.pid;
    receive(ret_box, SBX_INIT_WAITING, &msg);
}

static void add(struct cr_buf *buf, enum sbx_payload_kind kind, const char *name, const char *data)
{
    assert_int_equal(sbx_payload_add(buf, kind, 0, 0, name, strlen(name), data, strlen(data)), 0);
}

static void add_environment(struct cr_buf *buf, const char *const *lines)
{
    for (; *lines; lines++) {
        size_t size = strcspn(*lines, "=");

        assert_int_equal(sbx_payload_add(buf, SBX_PAYLOAD_ENV, 0, 0, *lines, size,
                                         *lines + size + 1, strlen(*lines + size + 1)),
                         0);
    }
}

/* As the front does. */
static int make_payload(enum sbx_template_kind kind, const struct template_spec *spec)
{
    const struct sbx_runtime *runtime = sbx_template_runtime(kind);
    CR_AUTO_BUF struct cr_buf buf;
    int fd;

    cr_buf_init(&buf, SBX_PAYLOAD_MAX);
    assert_int_equal(sbx_payload_begin(&buf), 0);
    for (const char *const *arg = runtime->argv; *arg; arg++)
        add(&buf, SBX_PAYLOAD_ARG, "", *arg);
    if (spec->arg)
        add(&buf, SBX_PAYLOAD_ARG, "", spec->arg);
    add_environment(&buf, sbx_environment);
    add_environment(&buf, runtime->environment);
    if (spec->env)
        add(&buf, SBX_PAYLOAD_ENV, "NAME", spec->env);
    if (spec->file_name)
        add(&buf, SBX_PAYLOAD_FILE, spec->file_name, spec->file_text);
    sbx_payload_end(&buf);
    fd = sbx_payload_seal(&buf, NULL);
    assert_true(fd >= 0);
    return fd;
}

void template_box_load(struct template_box *of, const struct template_spec *spec)
{
    const struct sbx_init_msg msg = {.event = SBX_INIT_LOAD};
    int payload_fd = make_payload(of->kind, spec);
    int in[2];
    int out[2];
    int err[2];

    assert_int_equal(pipe2(in, O_CLOEXEC) | pipe2(out, O_CLOEXEC) | pipe2(err, O_CLOEXEC), 0);
    assert_int_equal(sbx_fds_send(of->control_fd, &msg, sizeof(msg),
                                  (int[]){payload_fd, in[0], out[1], err[1]}, SBX_INIT_LOAD_FDS),
                     0);
    (void)(close(payload_fd) | close(in[0]) | close(in[1]) | close(out[1]) | close(err[1]));
    of->output_fds[0] = out[0];
    of->output_fds[1] = err[0];
}

void template_box_go(const struct template_box *of)
{
    const struct sbx_init_msg msg = {.event = SBX_INIT_GO};
    struct sbx_init_msg ready;

    receive(of, SBX_INIT_READY, &ready);
    assert_int_equal(send(of->control_fd, &msg, sizeof(msg), MSG_NOSIGNAL), sizeof(msg));
}

void template_box_read(struct template_box *of)
{
    for (int i = 0; i < 2; i++) {
        size_t size = 0;
        ssize_t n;

        while ((n = read(of->output_fds[i], of->output[i] + size, TEMPLATE_OUTPUT_MAX - 1 - size)) >
               0)
            size += (size_t)n;
        of->output[i][size] = '\0';
        cr_close_fd(&of->output_fds[i]);
    }
}

void template_box_remove(struct template_box *of)
{
    int64_t deadline_ns = cr_clock_mono_ns() + TEMPLATE_DEADLINE_MS * CR_NS_PER_MS;
    siginfo_t info;

    assert_int_equal(waitid(P_PIDFD, (id_t)of->pidfd, &info, WEXITED), 0);
    cr_close_fd(&of->pidfd);
    cr_close_fd(&of->control_fd);
    cr_close_fd(&of->workspace_fd);
    sbx_cgroup_close(&of->group);
    while (sbx_cgroup_remove(&native.base.cgroups, of->number) == -EBUSY &&
           cr_clock_mono_ns() < deadline_ns)
        (void)poll(NULL, 0, 1);
}

void template_box_finish(struct template_box *of)
{
    struct sbx_init_msg msg;

    receive(of, SBX_INIT_EXITED, &msg);
    of->wait_status = msg.wait_status;
    template_box_read(of);
    template_box_remove(of);
}

void template_run(enum sbx_template_kind kind, const struct template_spec *spec)
{
    template_box_make(kind, 0, &box);
    template_box_load(&box, spec);
    template_box_go(&box);
    template_box_finish(&box);
}

void template_run_text(enum sbx_template_kind kind, const char *text)
{
    const char *name = sbx_template_runtime(kind)->entry_file;

    template_run(kind, &(struct template_spec){.file_name = name, .file_text = text});
}

void template_assert_clean(const char *expected)
{
    assert_string_equal(box.output[1], "");
    assert_string_equal(box.output[0], expected);
    assert_int_equal(box.wait_status, 0);
}
