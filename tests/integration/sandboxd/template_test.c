/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Real templates and boxes, with this test in the place of the backend.
 * Needs root.
 */
#include "common/auto.h"
#include "common/buf.h"
#include "common/clock.h"
#include "common/err.h"
#include "common/log.h"
#include "sandboxd/backend/userns.h"
#include "sandboxd/native/native.h"
#include "sandboxd/native/needs.h"
#include "sandboxd/runtimes/table.h"
#include "sandboxd/template/kind.h"
#include "sandboxd/template/template.h"
#include "sandboxd/wire/boxctl.h"
#include "sandboxd/wire/fds.h"
#include "sandboxd/wire/payload.h"
#include "tests/harness/test.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include <sys/socket.h>
#include <sys/wait.h>

#define SLOTS 2
#define DEADLINE_MS 15000
#define OUTPUT_MAX 65536
#define UID_BASE_STEP (16U * SBX_USERNS_RANGE)

/* What the backend would hold. */
static struct sbx_native native;
static struct sbx_template_host host = {.image_fd = -1, .userns_fd = -1};
static struct sbx_template templates[SBX_TEMPLATE_KIND_COUNT];
static uint32_t next_group = 1;

struct spec {
    const char *file_name;
    const char *file_text;
    const char *arg; /* one more behind those of the runtime; NULL: none */
    const char *env; /* value of a variable NAME; NULL: none */
};

/* A box from asking for it to its end. */
struct box {
    enum sbx_template_kind kind;
    uint32_t slot;
    uint32_t number;
    struct sbx_cgroup group;
    int workspace_fd;
    int control_fd;
    int pidfd;
    pid_t pid;
    int output_fds[2]; /* read ends: stdout, stderr */
    char output[2][OUTPUT_MAX];
    int wait_status;
};

static void assert_ok(int r, const struct cr_err *err)
{
    if (r < 0)
        fail_msg("%d %s", r, err->text);
}

static int start_all(void **state)
{
    struct sbx_native_settings settings = {
        .slots = SLOTS,
        .uid_base = SBX_USERNS_DEFAULT_BASE + UID_BASE_STEP,
        .init_path = (char[]){SANDBOX_INIT},
    };
    struct cr_err err = CR_ERR_INIT;

    (void)state;
    cr_log_setup("template_test", CR_LOG_INFO, CR_LOG_TEXT);
    for (size_t i = 0; i < CR_ARRAY_SIZE(templates); i++)
        templates[i] = (struct sbx_template)SBX_TEMPLATE_INIT;
    sbx_native_init(&settings, &native);
    assert_ok(sbx_template_image_load(TEMPLATE_IMAGE, &host.image_fd, &err), &err);
    assert_ok(sbx_template_userns_make((uint32_t)settings.uid_base, SLOTS, &host.userns_fd, &err),
              &err);
    assert_ok(sbx_needs_meet(&settings, &native, &err), &err);
    host.init_fd = native.init_fd;
    host.seccomp_fd = native.seccomp_fd;
    host.places = SLOTS;
    return 0;
}

static int stop_all(void **state)
{
    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(templates); i++)
        sbx_template_stop(&templates[i]);
    cr_close_fd(&host.image_fd);
    cr_close_fd(&host.userns_fd);
    sbx_native_stop(&native);
    return 0;
}

static struct sbx_template_event await_event(struct sbx_template *template)
{
    struct pollfd watch = {.fd = template->fd, .events = POLLIN};
    struct sbx_template_event event = {.pidfd = -1};

    assert_int_equal(poll(&watch, 1, DEADLINE_MS), 1);
    assert_int_equal(sbx_template_receive(template, &event), 0);
    return event;
}

/* The template of that kind, started when there is none. */
static struct sbx_template *get_template(enum sbx_template_kind kind)
{
    struct sbx_template *template = &templates[kind];
    struct cr_err err = CR_ERR_INIT;

    if (template->pid > 0)
        return template;
    assert_ok(sbx_template_start(&host, kind, template, &err), &err);
    assert_int_equal(await_event(template).kind, SBX_TEMPLATE_EVENT_READY);
    return template;
}

static void receive(const struct box *box, uint32_t event, struct sbx_init_msg *ret_msg)
{
    struct pollfd watch = {.fd = box->control_fd, .events = POLLIN};

    assert_int_equal(poll(&watch, 1, DEADLINE_MS), 1);
    assert_int_equal(recv(box->control_fd, ret_msg, sizeof(*ret_msg), 0), sizeof(*ret_msg));
    if (ret_msg->event != event)
        fail_msg("event %u instead of %u, stage %s, errno %d", ret_msg->event, event,
                 sbx_stage_name(ret_msg->stage), ret_msg->error);
}

/* Up to WAITING. */
static void make_box(enum sbx_template_kind kind, uint32_t slot, struct box *ret_box)
{
    struct sbx_template *template = get_template(kind);
    const struct sbx_limits *limits = &sbx_default_limits;
    uid_t owner = native.uid_base + slot * SBX_USERNS_RANGE + SBX_USERNS_PROGRAM_ID;
    struct cr_err err = CR_ERR_INIT;
    struct sbx_template_event event;
    struct sbx_init_msg msg;

    *ret_box = (struct box){.kind = kind, .slot = slot, .number = next_group++};
    assert_ok(sbx_cgroup_make(&native.base.cgroups, ret_box->number, &err), &err);
    assert_ok(sbx_cgroup_open(&native.base.cgroups, ret_box->number, &ret_box->group, &err), &err);
    assert_ok(sbx_cgroup_limit(&ret_box->group, limits, &err), &err);
    assert_ok(sbx_workspace_make(limits->value[SBX_LIMIT_WORKSPACE_BYTES],
                                 limits->value[SBX_LIMIT_WORKSPACE_INODES], owner,
                                 &ret_box->workspace_fd, &err),
              &err);
    assert_ok(sbx_template_ask(template,
                               &(struct sbx_template_box){.group = &ret_box->group,
                                                          .limits = limits,
                                                          .workspace_fd = ret_box->workspace_fd,
                                                          .place = slot,
                                                          .id = ret_box->number},
                               &ret_box->control_fd, &err),
              &err);
    event = await_event(template);
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
static int make_payload(enum sbx_template_kind kind, const struct spec *spec)
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

static void load(struct box *box, const struct spec *spec)
{
    const struct sbx_init_msg msg = {.event = SBX_INIT_LOAD};
    int payload_fd = make_payload(box->kind, spec);
    int in[2];
    int out[2];
    int err[2];

    assert_int_equal(pipe2(in, O_CLOEXEC) | pipe2(out, O_CLOEXEC) | pipe2(err, O_CLOEXEC), 0);
    assert_int_equal(sbx_fds_send(box->control_fd, &msg, sizeof(msg),
                                  (int[]){payload_fd, in[0], out[1], err[1]}, SBX_INIT_LOAD_FDS),
                     0);
    (void)(close(payload_fd) | close(in[0]) | close(in[1]) | close(out[1]) | close(err[1]));
    box->output_fds[0] = out[0];
    box->output_fds[1] = err[0];
}

static void go(const struct box *box)
{
    const struct sbx_init_msg msg = {.event = SBX_INIT_GO};
    struct sbx_init_msg ready;

    receive(box, SBX_INIT_READY, &ready);
    assert_int_equal(send(box->control_fd, &msg, sizeof(msg), MSG_NOSIGNAL), sizeof(msg));
}

static void read_output(struct box *box)
{
    for (int i = 0; i < 2; i++) {
        size_t size = 0;
        ssize_t n;

        while ((n = read(box->output_fds[i], box->output[i] + size, OUTPUT_MAX - 1 - size)) > 0)
            size += (size_t)n;
        box->output[i][size] = '\0';
        cr_close_fd(&box->output_fds[i]);
    }
}

static void remove_box(struct box *box)
{
    int64_t deadline_ns = cr_clock_mono_ns() + DEADLINE_MS * CR_NS_PER_MS;
    siginfo_t info;

    assert_int_equal(waitid(P_PIDFD, (id_t)box->pidfd, &info, WEXITED), 0);
    cr_close_fd(&box->pidfd);
    cr_close_fd(&box->control_fd);
    cr_close_fd(&box->workspace_fd);
    sbx_cgroup_close(&box->group);
    while (sbx_cgroup_remove(&native.base.cgroups, box->number) == -EBUSY &&
           cr_clock_mono_ns() < deadline_ns)
        (void)poll(NULL, 0, 1);
}

static void finish(struct box *box)
{
    struct sbx_init_msg msg;

    receive(box, SBX_INIT_EXITED, &msg);
    box->wait_status = msg.wait_status;
    read_output(box);
    remove_box(box);
}

static void run(enum sbx_template_kind kind, const struct spec *spec, struct box *ret_box)
{
    make_box(kind, 0, ret_box);
    load(ret_box, spec);
    go(ret_box);
    finish(ret_box);
}

static struct box box; /* large */

static void python_runs_main(void **state)
{
    (void)state;
    run(SBX_TEMPLATE_PYTHON, &(struct spec){.file_name = "main.py", .file_text = "print(6 * 7)"},
        &box);

    assert_string_equal(box.output[0], "42\n");
    assert_string_equal(box.output[1], "");
    assert_int_equal(box.wait_status, 0);
}

static void pytest_runs_tests(void **state)
{
    (void)state;
    run(SBX_TEMPLATE_PYTEST,
        &(struct spec){.file_name = "test_main.py", .file_text = "def test(): assert 1 == 2\n"},
        &box);

    print_message("%s|%s", box.output[0], box.output[1]);
    assert_int_equal(box.wait_status, 1 << 8);
}

static void shallow_pytest_takes_arguments(void **state)
{
    (void)state;
    run(SBX_TEMPLATE_PYTEST_SHALLOW,
        &(struct spec){.file_name = "test_main.py",
                       .file_text = "def test_a(): pass\ndef test_b(): pass\n",
                       .arg = "-vktest_b"},
        &box);

    print_message("%s|%s", box.output[0], box.output[1]);
    assert_int_equal(box.wait_status, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(python_runs_main),
        cmocka_unit_test(pytest_runs_tests),
        cmocka_unit_test(shallow_pytest_takes_arguments),
    };

    if (geteuid() != 0) {
        (void)fprintf(stderr, "needs root for namespaces and control groups\n");
        return 77;
    }
    return cmocka_run_group_tests(tests, start_all, stop_all);
}
