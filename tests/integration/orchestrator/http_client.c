/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/integration/orchestrator/http_client.h"

#include "common/auto.h"
#include "common/clock.h"
#include "tests/harness/test.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#define DEADLINE_MS 60000
#define REQUEST_MAX 65536

void client_connect_fd(int fd, uint16_t port)
{
    const struct sockaddr_in address = {
        .sin_family = AF_INET,
        .sin_port = htons(port),
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
    };

    if (connect(fd, (const struct sockaddr *)&address, sizeof(address)) < 0)
        fail_msg("connect: errno %d", errno);
}

int client_connect(uint16_t port)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    client_connect_fd(fd, port);
    return fd;
}

/* The server may have closed already: then its answer tells, not the send. */
void client_send(int fd, const void *data, size_t size)
{
    const char *at = data;

    while (size > 0) {
        ssize_t sent = send(fd, at, size, MSG_NOSIGNAL);

        if (sent < 0)
            return;
        at += sent;
        size -= (size_t)sent;
    }
}

void client_send_str(int fd, const char *text)
{
    client_send(fd, text, strlen(text));
}

/* 1 with bytes, 0 at the end of the stream, -1 at the deadline. */
static int read_some(int fd, struct cr_buf *buf, int64_t until_ns)
{
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    int64_t left_ms = (until_ns - cr_clock_mono_ns()) / CR_NS_PER_MS;
    char chunk[16384];
    ssize_t size;

    if (left_ms <= 0 || poll(&ready, 1, (int)left_ms) <= 0)
        return -1;
    size = recv(fd, chunk, sizeof(chunk), 0);
    if (size <= 0)
        return 0;
    assert_int_equal(cr_buf_add(buf, chunk, (size_t)size), 0);
    return 1;
}

void client_read_until(int fd, struct cr_buf *buf, const char *needle)
{
    int64_t until_ns = cr_clock_mono_ns() + DEADLINE_MS * CR_NS_PER_MS;

    while (!strstr(cr_buf_str(buf), needle)) {
        if (read_some(fd, buf, until_ns) <= 0)
            fail_msg("no '%s' in: %s", needle, cr_buf_str(buf));
    }
}

bool client_read_to_end(int fd, struct cr_buf *buf, int timeout_ms)
{
    int64_t until_ns = cr_clock_mono_ns() + timeout_ms * CR_NS_PER_MS;
    int r;

    do {
        r = read_some(fd, buf, until_ns);
    } while (r > 0);
    return r == 0;
}

int client_request(uint16_t port, const char *request, struct cr_buf *buf)
{
    CR_AUTO_CLOSE int fd = client_connect(port);

    client_send_str(fd, request);
    cr_buf_clear(buf);
    if (!client_read_to_end(fd, buf, DEADLINE_MS))
        fail_msg("not closed after: %s", cr_buf_str(buf));
    if (buf->size < 12 || strncmp(cr_buf_str(buf), "HTTP/1.", 7) != 0)
        return 0;
    return (int)strtol(cr_buf_str(buf) + 9, NULL, 10);
}

int client_post(uint16_t port, const char *path, const char *body, const char *more_headers,
                struct cr_buf *buf)
{
    char request[REQUEST_MAX];
    int size = snprintf(request, sizeof(request),
                        "POST %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                        "Content-Type: application/json\r\nContent-Length: %zu\r\n%s\r\n%s",
                        path, strlen(body), more_headers, body);

    assert_true(size > 0 && (size_t)size < sizeof(request));
    return client_request(port, request, buf);
}

int client_get(uint16_t port, const char *path, struct cr_buf *buf)
{
    char request[1024];

    (void)snprintf(request, sizeof(request),
                   "GET %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", path);
    return client_request(port, request, buf);
}

const char *client_body(const struct cr_buf *answer)
{
    const char *body = strstr(cr_buf_str(answer), "\r\n\r\n");

    return body ? body + 4 : "";
}

cJSON *client_json(const struct cr_buf *answer)
{
    cJSON *root = cJSON_Parse(client_body(answer));

    if (!root)
        fail_msg("no JSON: %s", cr_buf_str(answer));
    return root;
}

const char *client_text(const cJSON *root, const char *name)
{
    return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(root, name));
}

bool eventually(bool (*is_true)(void *user), void *user)
{
    int64_t until_ns = cr_clock_mono_ns() + DEADLINE_MS * CR_NS_PER_MS;

    while (!is_true(user)) {
        if (cr_clock_mono_ns() > until_ns)
            return false;
        (void)poll(NULL, 0, 5);
    }
    return true;
}
