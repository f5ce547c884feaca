/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/integration/sandboxd/fake_backend.h"

#include "common/auto.h"
#include "common/clock.h"
#include "common/unconst.h"
#include "common/utf8.h"
#include "rpc/status.h"
#include "sandboxd/runtimes/table.h"
#include "sandboxd/wire/lifeline.h"
#include "tests/harness/test.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include <sys/eventfd.h>
#include <sys/socket.h>

#define DEADLINE_MS 60000
#define SILENCE_MS 50
#define OUTPUT_MAX (8U << 20)

static void wait_fd(int fd, short events)
{
    struct pollfd poll_fd = {.fd = fd, .events = events};

    if (poll(&poll_fd, 1, DEADLINE_MS) != 1)
        fail_msg("nothing came in %d ms", DEADLINE_MS);
}

void fake_hello(union sbx_msg *msg, uint32_t slots)
{
    size_t count;

    (void)sbx_runtimes(&count);
    sbx_msg_init(msg, SBX_MSG_HELLO, 0);
    msg->hello.backend = 1;
    msg->hello.slots = slots;
    msg->hello.runtime_count = (uint32_t)count;
    msg->hello.cgroup_version = 2;
    msg->hello.runtime_digest = sbx_runtimes_digest();
    msg->hello.maximum = sbx_maximum_limits;
    memset(msg->hello.controls, SBX_ENFORCED, sizeof(msg->hello.controls));
}

static void say_hello(const struct fake *fake, uint32_t slots)
{
    union sbx_msg msg;

    fake_hello(&msg, slots);
    fake_send(fake, &msg);
}

void fake_open(struct fake *fake, uint32_t slots, size_t queue_length)
{
    int wire[2];
    int control[2];
    struct sbx_backend_options options = {.queue_length = queue_length};

    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, wire), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, control), 0);
    options.wire_fd = wire[0];
    options.control_fd = control[0];
    *fake = (struct fake){.wire_fd = wire[1], .control_fd = control[1]};
    assert_int_equal(sbx_backend_new(&options, &fake->backend, NULL), 0);
    if (slots > 0) {
        say_hello(fake, slots);
        fake_wait_up(fake, true);
    }
}

void fake_close(struct fake *fake)
{
    cr_close_fd(&fake->wire_fd); /* nothing to wait for: what still runs is lost */
    fake->backend = sbx_backend_free(fake->backend, DEADLINE_MS);
    cr_close_fd(&fake->control_fd);
}

void fake_wait_up(struct fake *fake, bool is_up)
{
    int64_t deadline_ns = cr_clock_mono_ns() + DEADLINE_MS * CR_NS_PER_MS;
    struct sbx_msg_hello hello;

    while (sbx_backend_hello(fake->backend, &hello) != is_up) {
        assert_true(cr_clock_mono_ns() < deadline_ns);
        (void)poll(NULL, 0, 1);
    }
}

void fake_reconnect(struct fake *fake, uint32_t slots)
{
    int wire[2];

    cr_close_fd(&fake->wire_fd);
    fake_wait_up(fake, false);
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, wire), 0);
    assert_int_equal(sbx_lifeline_send(fake->control_fd, SBX_LIFELINE_WIRE, 0, wire[0]), 0);
    assert_int_equal(close(wire[0]), 0);
    fake->wire_fd = wire[1];
    say_hello(fake, slots);
    fake_wait_up(fake, true);
}

void fake_receive(const struct fake *fake, enum sbx_msg_type type, union sbx_msg *ret_msg)
{
    int fds[SBX_RUN_FDS];
    size_t fd_count;

    wait_fd(fake->wire_fd, POLLIN);
    assert_int_equal(sbx_msg_receive(fake->wire_fd, ret_msg, fds, &fd_count, NULL), 0);
    assert_int_equal(fd_count, 0);
    assert_int_equal(ret_msg->header.type, type);
}

bool fake_is_silent(const struct fake *fake)
{
    struct pollfd poll_fd = {.fd = fake->wire_fd, .events = POLLIN};

    return poll(&poll_fd, 1, SILENCE_MS) == 0;
}

void fake_send(const struct fake *fake, const union sbx_msg *msg)
{
    assert_int_equal(sbx_msg_send(fake->wire_fd, msg, NULL, 0), 0);
}

void fake_take(const struct fake *fake, struct fake_run *run)
{
    union sbx_msg msg;
    size_t fd_count;

    wait_fd(fake->wire_fd, POLLIN);
    assert_int_equal(sbx_msg_receive(fake->wire_fd, &msg, run->fds, &fd_count, NULL), 0);
    assert_int_equal(msg.header.type, SBX_MSG_RUN);
    assert_int_equal(fd_count, SBX_RUN_FDS);
    run->number = msg.header.run;
    run->request = msg.run;
    for (size_t i = 2; i < SBX_RUN_FDS; i++)
        assert_int_equal(fcntl(run->fds[i], F_SETFL, O_NONBLOCK), 0);
}

void fake_say_started(const struct fake *fake, const struct fake_run *run)
{
    union sbx_msg msg;

    sbx_msg_init(&msg, SBX_MSG_STARTED, run->number);
    fake_send(fake, &msg);
}

void fake_start(const struct fake *fake, struct fake_run *run)
{
    fake_take(fake, run);
    fake_say_started(fake, run);
}

void fake_write(struct fake_run *run, uint32_t stream, const void *data, size_t size,
                struct fake_client *client)
{
    int64_t deadline_ns = cr_clock_mono_ns() + DEADLINE_MS * CR_NS_PER_MS;
    const uint8_t *at = data;

    while (size > 0) {
        ssize_t n = write(run->fds[1 + stream], at, size);

        assert_true(n >= 0 || errno == EAGAIN);
        if (n > 0) {
            at += n;
            size -= (size_t)n;
        }
        client_take(client);
        if (n < 0)
            (void)poll(NULL, 0, 1);
        assert_true(cr_clock_mono_ns() < deadline_ns);
    }
}

void fake_close_fds(struct fake_run *run)
{
    for (size_t i = 0; i < SBX_RUN_FDS; i++)
        cr_close_fd(&run->fds[i]);
}

void fake_exit(const struct fake *fake, struct fake_run *run, struct sbx_msg_drained *ret_drained)
{
    union sbx_msg msg;

    fake_close_fds(run);
    sbx_msg_init(&msg, SBX_MSG_EXITED, run->number);
    fake_send(fake, &msg);
    fake_receive(fake, SBX_MSG_DRAINED, &msg);
    assert_int_equal(msg.header.run, run->number);
    if (ret_drained)
        *ret_drained = msg.drained;
}

static void send_result(const struct fake *fake, const struct fake_run *run,
                        enum sbx_verdict verdict, bool is_early)
{
    union sbx_msg msg;

    sbx_msg_init(&msg, SBX_MSG_RESULT, run->number);
    msg.result.verdict = verdict;
    msg.result.cgroup_version = 2;
    msg.result.is_early = is_early;
    fake_send(fake, &msg);
}

void fake_early_result(const struct fake *fake, const struct fake_run *run,
                       enum sbx_verdict verdict)
{
    send_result(fake, run, verdict, true);
}

void fake_result(const struct fake *fake, const struct fake_run *run, enum sbx_verdict verdict)
{
    send_result(fake, run, verdict, false);
}

void fake_finish(const struct fake *fake, struct fake_run *run, enum sbx_verdict verdict)
{
    union sbx_msg msg;

    fake_close_fds(run);
    sbx_msg_init(&msg, SBX_MSG_EXITED, run->number);
    fake_send(fake, &msg);
    fake_early_result(fake, run, verdict);
    fake_receive(fake, SBX_MSG_DRAINED, &msg);
    assert_int_equal(msg.header.run, run->number);
}

/* ---- the client ---- */

static void ring(void *user)
{
    const struct fake_client *client = user;
    const uint64_t one = 1;

    (void)!write(client->bell_fd, &one, sizeof(one));
}

void client_request(Crisol__Sandbox__V1__ExecuteRequest *message)
{
    crisol__sandbox__v1__execute_request__init(message);
    message->runtime = cr_unconst("python");
    message->code = cr_unconst("pass");
}

void client_prepare(struct fake_client *client, Crisol__Sandbox__V1__ExecuteRequest *message,
                    const char *caller)
{
    struct sbx_request_rules rules = {.maximum = sbx_maximum_limits,
                                      .runtimes = UINT32_MAX,
                                      .backend = CRISOL__SANDBOX__V1__BACKEND__BACKEND_NATIVE};
    struct sbx_waker waker = {.wake = ring, .user = client};
    struct rpc_status status = RPC_STATUS_INIT;
    struct sbx_request request;

    *client = (struct fake_client){.bell_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
    assert_true(client->bell_fd >= 0);
    cr_buf_init(&client->outputs[0], OUTPUT_MAX);
    cr_buf_init(&client->outputs[1], OUTPUT_MAX);
    if (sbx_request_check(message, &rules, &request, &status) < 0)
        fail_msg("%s", status.message);
    client->is_text = request.as_text;
    assert_int_equal(sbx_execution_new(message, &request, caller, &waker, &client->execution, NULL),
                     0);
}

void client_submit(struct fake_client *client, struct fake *fake,
                   Crisol__Sandbox__V1__ExecuteRequest *message, const char *caller)
{
    client_prepare(client, message, caller);
    sbx_execution_submit(client->execution, fake->backend);
}

static void keep(struct fake_client *client, const struct sbx_event *event,
                 const struct cr_buf *chunk)
{
    struct cr_buf *output = &client->outputs[event->stream - 1];

    assert_true(chunk->size > 0 && chunk->size <= SBX_CHUNK_MAX);
    assert_true(event->offset >= output->size); /* a gap only where something was dropped */
    assert_true(event->offset == output->size || client->dropped[event->stream - 1] > 0);
    if (client->is_text && client->dropped[event->stream - 1] == 0)
        assert_true(cr_utf8_is_valid(chunk->data, chunk->size));
    assert_int_equal(cr_buf_add(output, chunk->data, chunk->size), 0);
    client->chunks++;
}

void client_take(struct fake_client *client)
{
    CR_AUTO_BUF struct cr_buf chunk;

    cr_buf_init(&chunk, SBX_CHUNK_MAX);
    while (!client->has_ended) {
        struct sbx_event event = sbx_execution_take(client->execution, &chunk);

        switch (event.type) {
        case SBX_EVENT_NONE:
            return;
        case SBX_EVENT_STARTED:
            assert_int_equal(client->chunks, 0);
            client->has_started = true;
            break;
        case SBX_EVENT_DATA:
            assert_true(client->has_started);
            keep(client, &event, &chunk);
            break;
        case SBX_EVENT_TRUNCATED:
            client->dropped[event.stream - 1] = event.dropped;
            break;
        case SBX_EVENT_ENDED:
            client->has_ended = true;
            break;
        }
        cr_buf_clear(&chunk);
    }
}

static void wait_until(struct fake_client *client, const bool *condition)
{
    uint64_t count;

    client_take(client);
    while (!*condition) {
        wait_fd(client->bell_fd, POLLIN);
        (void)!read(client->bell_fd, &count, sizeof(count));
        client_take(client);
    }
}

void client_wait_started(struct fake_client *client)
{
    wait_until(client, &client->has_started);
}

const struct sbx_outcome *client_wait_end(struct fake_client *client)
{
    wait_until(client, &client->has_ended);
    return sbx_execution_outcome(client->execution);
}

void client_done(struct fake_client *client)
{
    client->execution = sbx_execution_unref(client->execution);
    cr_buf_done(&client->outputs[0]);
    cr_buf_done(&client->outputs[1]);
    cr_close_fd(&client->bell_fd);
}

void client_submit_plain(struct fake_client *client, struct fake *fake, const char *caller)
{
    Crisol__Sandbox__V1__ExecuteRequest message;

    client_request(&message);
    client_submit(client, fake, &message, caller);
}

static int first_fds; /* before the first test */

void fake_begin(void)
{
    first_fds = test_count_fds();
    (void)sigaction(SIGPIPE, &(struct sigaction){.sa_handler = SIG_IGN}, NULL);
}

int fake_check_fds(void **state)
{
    (void)state;
    assert_int_equal(test_count_fds(), first_fds);
    return 0;
}
