/* SPDX-License-Identifier: Apache-2.0 */

/* What a relay does once it has no privilege left, without the filter. */
#include "sandboxd/docker/relay_child.h"
#include "tests/harness/test.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include <arpa/inet.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>

#define TOO_OFTEN 1000
#define EXIT_TOO_OFTEN 42
#define FRAMES 6U

static bool must_count;
static int poll_count;

int __wrap_poll(struct pollfd *fds, nfds_t count, int timeout);
int __real_poll(struct pollfd *fds, nfds_t count, int timeout);

int __wrap_poll(struct pollfd *fds, nfds_t count, int timeout)
{
    if (must_count && ++poll_count > TOO_OFTEN)
        _exit(EXIT_TOO_OFTEN);
    return __real_poll(fds, count, timeout);
}

/* The ends that the test keeps. */
struct peer {
    pid_t pid;
    int socket_fd;
    int control_fd;
    int output_fd;
};

static void place(int fd, int number)
{
    if (dup2(fd, number) < 0 || fcntl(number, F_SETFL, O_NONBLOCK | O_RDWR) < 0)
        _exit(1);
}

/* `ends` are the socket, the control socket and standard output, with numbers above all places. */
__attribute__((noreturn)) static void be_relay(const int ends[3], int payload_fd)
{
    (void)signal(SIGPIPE, SIG_IGN);
    place(ends[0], SBX_RELAY_FD_SOCKET);
    place(ends[1], SBX_RELAY_FD_CONTROL);
    place(ends[2], STDOUT_FILENO);
    if (dup2(payload_fd, SBX_RELAY_FD_PAYLOAD) < 0 || close_range(SBX_RELAY_FD_COUNT, ~0U, 0) < 0 ||
        sbx_relay_map(false) < 0)
        _exit(1);
    must_count = true;
    _exit(sbx_relay_loop());
}

static int high(int fd)
{
    int copy = fcntl(fd, F_DUPFD_CLOEXEC, 64);

    assert_true(copy >= 0);
    assert_int_equal(close(fd), 0);
    return copy;
}

static void start(struct peer *peer)
{
    int pairs[3][2];
    int ends[3];
    int payload_fd = high(memfd_create("payload", MFD_CLOEXEC));

    /* More than the socket takes at once. */
    assert_int_equal(ftruncate(payload_fd, 4 << 20), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pairs[0]), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pairs[1]), 0);
    assert_int_equal(pipe2(pairs[2], O_CLOEXEC), 0);
    for (int i = 0; i < 3; i++)
        ends[i] = high(pairs[i][1]);
    *peer = (struct peer){.socket_fd = high(pairs[0][0]),
                          .control_fd = high(pairs[1][0]),
                          .output_fd = high(pairs[2][0])};
    peer->pid = fork();
    assert_true(peer->pid >= 0);
    if (peer->pid == 0)
        be_relay(ends, payload_fd);
    for (int i = 0; i < 3; i++)
        assert_int_equal(close(ends[i]), 0);
    assert_int_equal(close(payload_fd), 0);
}

/* More than a pipe holds, in one frame of the engine. */
static void send_output(const struct peer *peer)
{
    static struct {
        uint8_t engine[8];

        struct {
            struct sbx_stream_header header;
            uint8_t data[SBX_STREAM_DATA_MAX];
        } frames[FRAMES];
    } stream = {.engine = {1}};

    const uint32_t size = htonl(sizeof(stream.frames));
    size_t at = 0;

    memcpy(stream.engine + 4, &size, sizeof(size));
    for (size_t i = 0; i < FRAMES; i++)
        stream.frames[i].header =
            (struct sbx_stream_header){.kind = SBX_STREAM_STDOUT, .size = SBX_STREAM_DATA_MAX};
    while (at < sizeof(stream)) {
        ssize_t n = send(peer->socket_fd, (const uint8_t *)&stream + at, sizeof(stream) - at,
                         MSG_NOSIGNAL | MSG_DONTWAIT);

        if (n < 0)
            break; /* the rest does not matter */
        at += (size_t)n;
    }
    assert_true(at > SBX_STREAM_DATA_MAX + 4096);
}

/* Returns -1 when it goes on. */
static int exit_code(const struct peer *peer, int wait_ms)
{
    int status;

    for (int i = 0; i < wait_ms / 10; i++) {
        if (waitpid(peer->pid, &status, WNOHANG) == peer->pid) {
            assert_true(WIFEXITED(status));
            return WEXITSTATUS(status);
        }
        (void)poll(NULL, 0, 10);
    }
    return -1;
}

/* A slow reader of the output keeps a relay waiting, whose container may be gone by then. */
static void relays_of_containers_that_are_gone_sleep_until_their_output_is_read(void **state)
{
    char bytes[65536];
    struct peer peer;
    ssize_t n;

    (void)state;
    start(&peer);
    send_output(&peer);
    (void)poll(NULL, 0, 200); /* until it waits for its output */
    assert_int_equal(close(peer.socket_fd), 0);
    assert_int_equal(exit_code(&peer, 1000), -1);
    do
        n = read(peer.output_fd, bytes, sizeof(bytes));
    while (n > 0);
    assert_int_equal(n, 0);
    assert_int_equal(exit_code(&peer, 60000), 0);
    assert_int_equal(close(peer.output_fd), 0);
    assert_int_equal(close(peer.control_fd), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(relays_of_containers_that_are_gone_sleep_until_their_output_is_read),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
