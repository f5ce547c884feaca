/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/integration/sandboxd/native_client.h"

#include "common/auto.h"
#include "common/clock.h"
#include "common/err.h"
#include "sandboxd/runtimes/table.h"
#include "sandboxd/wire/payload.h"
#include "tests/harness/test.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/wait.h>

#define DEADLINE_MS 30000U
#define OUTPUT_CAP (4U << 20)
#define ARGS_MAX 32
#define RUNS_MAX 64

/* Above what a sandboxd on the same machine uses by default. */
#define UID_BASE UINT32_C(0x78000000)
#define UID_RANGES 500U

static const char *const environment[] = {"PATH=/usr/bin:/bin", "HOME=/workspace", "LANG=C.UTF-8"};

/* The binary lies in ../bin of the test. */
static void binary_path(char *path, size_t size)
{
    char self[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

    assert_true(n > 0);
    self[n] = '\0';
    *strrchr(self, '/') = '\0';
    *strrchr(self, '/') = '\0';
    assert_true(snprintf(path, size, "%s/bin/sandboxd-native", self) < (int)size);
}

__attribute__((noreturn)) static void become_native(uint32_t uid_base, int wire_fd, int lifeline_fd,
                                                    const char *const *flags)
{
    char path[PATH_MAX];
    char base[64];
    char *argv[ARGS_MAX] = {path, base};
    char *const nothing[] = {NULL};

    binary_path(path, sizeof(path));
    (void)snprintf(base, sizeof(base), "--uid-base=%u", uid_base);
    for (int i = 0; flags && flags[i]; i++)
        argv[i + 2] = strdup(flags[i]);
    /* Up first: one may have the number of the other's target. */
    wire_fd = fcntl(wire_fd, F_DUPFD, 10);
    lifeline_fd = fcntl(lifeline_fd, F_DUPFD, 10);
    (void)dup2(wire_fd, 3);
    (void)dup2(lifeline_fd, 4);
    (void)close_range(5, ~0U, 0);
    (void)execve(path, argv, nothing);
    _exit(127);
}

static void wait_readable(int fd)
{
    struct pollfd watch = {.fd = fd, .events = POLLIN};

    assert_int_equal(poll(&watch, 1, (int)(DEADLINE_MS * test_slowness())), 1);
}

static void receive_own(const struct native_client *client, enum sbx_msg_type type,
                        union sbx_msg *ret_msg)
{
    struct cr_err err = CR_ERR_INIT;
    int fds[SBX_RUN_FDS];
    size_t fd_count;

    do { /* counts come when they have changed, between all others */
        wait_readable(client->wire_fd);
        assert_int_equal(sbx_msg_receive(client->wire_fd, ret_msg, fds, &fd_count, &err), 0);
    } while (ret_msg->header.type == SBX_MSG_COUNTS);
    assert_int_equal(ret_msg->header.type, type);
}

void native_client_start(struct native_client *client, const char *const *flags)
{
    union sbx_msg msg;
    int wire[2];
    int lifeline[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, wire), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, lifeline), 0);
    client->uid_base = UID_BASE + (uint32_t)getpid() % UID_RANGES * NATIVE_UID_RANGE;
    client->pid = fork();
    assert_true(client->pid >= 0);
    if (client->pid == 0)
        become_native(client->uid_base, wire[1], lifeline[1], flags);
    (void)close(wire[1]);
    (void)close(lifeline[1]);
    client->wire_fd = wire[0];
    client->lifeline_fd = lifeline[0];
    client->pidfd = pidfd_open(client->pid, 0);
    assert_true(client->pidfd >= 0);
    receive_own(client, SBX_MSG_HELLO, &msg);
    client->hello = msg.hello;
    if (client->hello.pool_slots == 0)
        return;
    receive_own(client, SBX_MSG_POOL, &msg);
    assert_int_equal(msg.pool.ready, client->hello.pool_slots);
}

void native_client_stop(struct native_client *client)
{
    int status = 0;

    cr_close_fd(&client->lifeline_fd);
    wait_readable(client->pidfd);
    assert_int_equal(waitpid(client->pid, &status, 0), client->pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    cr_close_fd(&client->pidfd);
    cr_close_fd(&client->wire_fd);
}

static void add(struct cr_buf *buf, enum sbx_payload_kind kind, uint32_t mode, const char *name,
                const char *data)
{
    assert_int_equal(sbx_payload_add(buf, kind, 0, mode, name, strlen(name), data, strlen(data)),
                     0);
}

static void add_args(struct cr_buf *buf, const struct native_spec *spec)
{
    if (spec->shell || spec->python) {
        add(buf, SBX_PAYLOAD_ARG, 0, "", spec->shell ? "/bin/sh" : "/usr/bin/python3");
        add(buf, SBX_PAYLOAD_ARG, 0, "", "-c");
        add(buf, SBX_PAYLOAD_ARG, 0, "", spec->shell ? spec->shell : spec->python);
        return;
    }
    for (int i = 0; spec->argv[i]; i++)
        add(buf, SBX_PAYLOAD_ARG, 0, "", spec->argv[i]);
}

static int make_payload(const struct native_spec *spec)
{
    CR_AUTO_BUF struct cr_buf buf = {0};
    struct cr_err err = CR_ERR_INIT;
    int fd;

    if (spec->payload) {
        fd = sbx_payload_seal(spec->payload, &err);
        assert_true(fd >= 0);
        return fd;
    }
    cr_buf_init(&buf, SBX_PAYLOAD_MAX);
    assert_int_equal(sbx_payload_begin(&buf), 0);
    add_args(&buf, spec);
    for (size_t i = 0; i < CR_ARRAY_SIZE(environment); i++) {
        const char *equals = strchr(environment[i], '=');

        assert_int_equal(sbx_payload_add(&buf, SBX_PAYLOAD_ENV, 0, 0, environment[i],
                                         (size_t)(equals - environment[i]), equals + 1,
                                         strlen(equals + 1)),
                         0);
    }
    if (spec->file_name)
        add(&buf, SBX_PAYLOAD_FILE, 0644, spec->file_name, spec->file_text);
    if (spec->collect)
        add(&buf, SBX_PAYLOAD_COLLECT, 1U << 20, spec->collect, "");
    sbx_payload_end(&buf);
    fd = sbx_payload_seal(&buf, &err);
    assert_true(fd >= 0);
    return fd;
}

void native_client_send(const struct native_client *client, struct native_run *run,
                        const struct native_spec *spec)
{
    static uint64_t last_id;
    union sbx_msg msg;
    int fds[SBX_RUN_FDS] = {make_payload(spec), -1, -1, -1, -1};

    *run = (struct native_run){.id = ++last_id};
    fds[1] = open("/dev/null", O_RDONLY | O_CLOEXEC);
    for (int i = 0; i < 3; i++) {
        int pipe_fds[2];

        assert_int_equal(pipe2(pipe_fds, O_CLOEXEC), 0);
        run->out_fds[i] = pipe_fds[0];
        fds[2 + i] = pipe_fds[1];
        cr_buf_init(&run->out[i], OUTPUT_CAP);
    }
    if (!spec->collect && !spec->has_collect) {
        (void)close(fds[4]);
        fds[4] = open("/dev/null", O_WRONLY | O_CLOEXEC);
    }
    sbx_msg_init(&msg, SBX_MSG_RUN, run->id);
    msg.run.flags = spec->flags;
    msg.run.limits = sbx_default_limits;
    msg.run.limits.value[SBX_LIMIT_WALL_TIME] *= test_slowness();
    msg.run.limits.value[SBX_LIMIT_CPU_TIME] *= test_slowness();
    for (int i = 0; i < SBX_LIMIT_COUNT; i++) {
        if (spec->limits[i] > 0)
            msg.run.limits.value[i] = spec->limits[i];
    }
    assert_int_equal(sbx_msg_send(client->wire_fd, &msg, fds, SBX_RUN_FDS), 0);
    for (int i = 0; i < SBX_RUN_FDS; i++)
        (void)close(fds[i]);
}

static struct native_run *find(struct native_run *runs, size_t count, uint64_t id)
{
    for (size_t i = 0; i < count; i++) {
        if (runs[i].id == id)
            return &runs[i];
    }
    print_error("a message about a run that nobody started\n");
    abort();
}

static void receive(const struct native_client *client, struct native_run *runs, size_t count)
{
    struct cr_err err = CR_ERR_INIT;
    struct native_run *run;
    union sbx_msg msg;
    int fds[SBX_RUN_FDS];
    size_t fd_count;

    assert_int_equal(sbx_msg_receive(client->wire_fd, &msg, fds, &fd_count, &err), 0);
    if (msg.header.type == SBX_MSG_COUNTS)
        return;
    run = find(runs, count, msg.header.run);
    assert_false(run->has_result);
    if (msg.header.type == SBX_MSG_STARTED) {
        assert_false(run->has_started);
        run->has_started = true;
        run->started_ns = cr_clock_mono_ns();
    } else if (msg.header.type == SBX_MSG_EXITED) {
        assert_true(run->has_started && !run->has_exited);
        run->has_exited = true;
        run->exited_ns = cr_clock_mono_ns();
    } else {
        assert_int_equal(msg.header.type, SBX_MSG_RESULT);
        run->has_early = msg.result.is_early != 0;
        run->has_result = !run->has_early || run->is_drained;
        run->result = msg.result;
    }
}

static void read_output(struct native_run *run, int i)
{
    char chunk[65536];
    ssize_t n = read(run->out_fds[i], chunk, sizeof(chunk));

    assert_true(n >= 0);
    if (n > 0)
        assert_int_equal(cr_buf_add(&run->out[i], chunk, (size_t)n), 0);
    else
        cr_close_fd(&run->out_fds[i]);
}

/* As a front must: DRAINED when everything was read to its end. */
static void drain(const struct native_client *client, struct native_run *run)
{
    union sbx_msg msg;

    for (int i = 0; i < 3; i++) {
        if (run->out_fds[i] >= 0)
            return;
    }
    if (!run->has_exited || run->has_result || run->is_drained)
        return;
    sbx_msg_init(&msg, SBX_MSG_DRAINED, run->id);
    assert_int_equal(sbx_msg_send(client->wire_fd, &msg, NULL, 0), 0);
    run->is_drained = true;
    run->has_result = run->has_early; /* we never find an overflow */
}

/* One round: waits for something to read and reads it. */
static void step(const struct native_client *client, struct native_run *runs, size_t count)
{
    struct pollfd watches[1 + 3 * RUNS_MAX];

    assert_true(count <= RUNS_MAX);
    watches[0] = (struct pollfd){.fd = client->wire_fd, .events = POLLIN};
    for (size_t i = 0; i < 3 * count; i++)
        watches[1 + i] = (struct pollfd){.fd = runs[i / 3].out_fds[i % 3], .events = POLLIN};
    assert_true(poll(watches, 1 + 3 * count, (int)(DEADLINE_MS * test_slowness())) > 0);
    for (size_t i = 0; i < 3 * count; i++) {
        if (watches[1 + i].revents != 0)
            read_output(&runs[i / 3], (int)(i % 3));
    }
    if (watches[0].revents != 0)
        receive(client, runs, count);
    for (size_t i = 0; i < count; i++)
        drain(client, &runs[i]);
}

static bool have_results(const struct native_run *runs, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (!runs[i].has_result)
            return false;
    }
    return true;
}

void native_client_wait(const struct native_client *client, struct native_run *runs, size_t count)
{
    while (!have_results(runs, count))
        step(client, runs, count);
}

void native_client_wait_started(const struct native_client *client, struct native_run *run)
{
    while (!run->has_started) {
        assert_false(run->has_result);
        step(client, run, 1);
    }
}

void native_client_cancel(const struct native_client *client, const struct native_run *run)
{
    union sbx_msg msg;

    sbx_msg_init(&msg, SBX_MSG_CANCEL, run->id);
    assert_int_equal(sbx_msg_send(client->wire_fd, &msg, NULL, 0), 0);
}

void native_client_output_limit(const struct native_client *client, const struct native_run *run,
                                uint64_t observed)
{
    union sbx_msg msg;

    sbx_msg_init(&msg, SBX_MSG_OUTPUT_LIMIT, run->id);
    msg.output_limit.stream = 1;
    msg.output_limit.observed = observed;
    assert_int_equal(sbx_msg_send(client->wire_fd, &msg, NULL, 0), 0);
}

void native_client_run(const struct native_client *client, const struct native_spec *spec,
                       struct native_run *ret_run)
{
    native_client_send(client, ret_run, spec);
    native_client_wait(client, ret_run, 1);
}

void native_run_done(struct native_run *run)
{
    for (int i = 0; i < 3; i++) {
        cr_close_fd(&run->out_fds[i]);
        cr_buf_done(&run->out[i]);
    }
}
