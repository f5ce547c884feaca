/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/integration/orchestrator/scripted_peer.h"

#include "common/buf.h"
#include "tests/harness/test.h"

#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

/* False: the test is over. */
static bool wait_readable(const struct peer *peer, int fd)
{
    struct pollfd fds[] = {{.fd = fd, .events = POLLIN}, {.fd = peer->stop_fd, .events = POLLIN}};

    return poll(fds, 2, -1) > 0 && !(fds[1].revents & POLLIN);
}

/* False: the test is over. */
static bool pause_for(const struct peer *peer, uint32_t delay_ms)
{
    struct pollfd stop = {.fd = peer->stop_fd, .events = POLLIN};

    return poll(&stop, 1, (int)delay_ms) == 0;
}

static bool is_whole(const struct cr_buf *request)
{
    const char *text = cr_buf_str(request);
    const char *end = strstr(text, "\r\n\r\n");
    const char *length = strcasestr(text, "content-length:");
    size_t body = length ? strtoul(length + 15, NULL, 10) : 0;

    return end && request->size >= (size_t)(end + 4 - text) + body;
}

/* Returns the request on the heap, NULL when the client left. */
static char *read_request(const struct peer *peer, int fd)
{
    struct cr_buf request;
    char block[65536];

    cr_buf_init(&request, 16u << 20);
    while (!is_whole(&request)) {
        ssize_t size;

        if (!wait_readable(peer, fd))
            break;
        size = recv(fd, block, sizeof(block), 0);
        if (size <= 0 || cr_buf_add(&request, block, (size_t)size) < 0)
            break;
    }
    if (!is_whole(&request)) {
        cr_buf_done(&request);
        return NULL;
    }
    return cr_buf_take_str(&request);
}

static bool send_all(const struct peer *peer, int fd, const char *bytes, size_t size,
                     const struct peer_line *line)
{
    for (size_t at = 0; at < size;) {
        size_t step = line->step && line->step < size - at ? line->step : size - at;
        ssize_t sent = send(fd, bytes + at, step, MSG_NOSIGNAL);

        if (sent < 0)
            return false;
        at += (size_t)sent;
        if (line->delay_ms && !pause_for(peer, line->delay_ms))
            return false;
    }
    return true;
}

static void send_line(const struct peer *peer, int fd, const struct peer_line *line)
{
    size_t size = line->size || !line->bytes ? line->size : strlen(line->bytes);
    bool is_open = true;

    for (uint32_t i = 0; i < (line->repeat ? line->repeat : 1) && is_open; i++)
        is_open = send_all(peer, fd, line->bytes, size, line);
}

static void reset(int fd)
{
    const struct linger linger = {.l_onoff = 1, .l_linger = 0};

    (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
    (void)close(fd);
}

/* Takes the connection. Returns the next line to play. */
static size_t serve(struct peer *peer, int fd, size_t at)
{
    while (at < peer->line_count) {
        const struct peer_line *line = &peer->lines[at];
        char *request = read_request(peer, fd);

        if (!request)
            break;
        peer->requests[peer->request_count] = request;
        peer->connections[peer->request_count] = peer->connection_count;
        peer->request_count++;
        at++;
        send_line(peer, fd, line);
        if (line->after == PEER_KEEP)
            continue;
        if (line->after == PEER_HOLD)
            peer->held[peer->held_count++] = fd;
        else if (line->after == PEER_RESET)
            reset(fd);
        else
            (void)close(fd);
        return at;
    }
    (void)close(fd);
    return at;
}

static void *run(void *user)
{
    struct peer *peer = user;
    const int on = 1;
    size_t at = 0;

    while (wait_readable(peer, peer->listen_fd)) {
        int fd = accept4(peer->listen_fd, NULL, NULL, SOCK_CLOEXEC);

        if (fd < 0)
            continue;
        peer->connection_count++;
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
        at = serve(peer, fd, at);
    }
    return NULL;
}

void peer_start(struct peer *peer, const struct peer_line *lines, size_t line_count)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(address);

    assert_true(line_count <= PEER_REQUESTS_MAX);
    *peer = (struct peer){.lines = lines, .line_count = line_count};
    peer->listen_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(peer->listen_fd >= 0);
    assert_int_equal(bind(peer->listen_fd, (struct sockaddr *)&address, size), 0);
    assert_int_equal(listen(peer->listen_fd, 64), 0);
    assert_int_equal(getsockname(peer->listen_fd, (struct sockaddr *)&address, &size), 0);
    peer->port = ntohs(address.sin_port);
    peer->stop_fd = eventfd(0, EFD_CLOEXEC);
    assert_true(peer->stop_fd >= 0);
    assert_int_equal(pthread_create(&peer->thread, NULL, run, peer), 0);
}

void peer_stop(struct peer *peer)
{
    assert_int_equal(eventfd_write(peer->stop_fd, 1), 0);
    assert_int_equal(pthread_join(peer->thread, NULL), 0);
    for (size_t i = 0; i < peer->held_count; i++)
        (void)close(peer->held[i]);
    (void)close(peer->listen_fd);
    (void)close(peer->stop_fd);
}

void peer_done(struct peer *peer)
{
    for (size_t i = 0; i < peer->request_count; i++)
        free(peer->requests[i]);
    peer->request_count = 0;
}
