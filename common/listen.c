/* SPDX-License-Identifier: Apache-2.0 */
#include "common/listen.h"

#include "common/auto.h"
#include "common/err.h"
#include "common/listen_unix.h"
#include "common/port_holder.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

union tcp_address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

static int parse_port(const char *text, const char *address, uint16_t *ret_port, struct cr_err *err)
{
    uintmax_t port = 0;
    size_t size = strspn(text, "0123456789");

    if (size > 0 && size <= 5 && !text[size])
        port = strtoumax(text, NULL, 10);
    else
        port = UINTMAX_MAX;
    if (port > UINT16_MAX)
        return cr_err_set(err, EINVAL, "address '%s': the port is not a number from 0 to 65535",
                          address);
    *ret_port = (uint16_t)port;
    return 0;
}

/* Takes "host:port" or "[host]:port" apart. */
static int split(const char *address, char host[64], uint16_t *ret_port, struct cr_err *err)
{
    const char *colon = strrchr(address, ':');
    const char *start = address;
    size_t size;

    if (!colon)
        return cr_err_set(err, EINVAL, "address '%s' has no port; write HOST:PORT or unix:/path",
                          address);
    size = (size_t)(colon - address);
    if (size >= 2 && start[0] == '[' && start[size - 1] == ']') {
        start++;
        size -= 2;
    } else if (memchr(address, ':', size)) {
        return cr_err_set(err, EINVAL, "address '%s': write IPv6 as [ADDRESS]:PORT", address);
    }
    if (size == 0)
        return cr_err_set(err, EINVAL,
                          "address '%s' has no host; write 127.0.0.1:PORT, or 0.0.0.0:PORT for "
                          "every interface",
                          address);
    if (size >= 64)
        return cr_err_set(err, EINVAL, "address '%s': the host is too long", address);
    memcpy(host, start, size);
    host[size] = '\0';
    return parse_port(colon + 1, address, ret_port, err);
}

static int parse_tcp(const char *text, union tcp_address *ret_address, socklen_t *ret_size,
                     struct cr_err *err)
{
    union tcp_address address = {0};
    char host[64];
    uint16_t port = 0;
    int r = split(text, host, &port, err);

    if (r < 0)
        return r;
    if (inet_pton(AF_INET6, host, &address.v6.sin6_addr) == 1) {
        address.v6.sin6_family = AF_INET6;
        address.v6.sin6_port = htons(port);
        *ret_size = sizeof(address.v6);
    } else if (inet_pton(AF_INET, strcmp(host, "localhost") == 0 ? "127.0.0.1" : host,
                         &address.v4.sin_addr) == 1) {
        address.v4.sin_family = AF_INET;
        address.v4.sin_port = htons(port);
        *ret_size = sizeof(address.v4);
    } else {
        return cr_err_set(err, EINVAL,
                          "address '%s': '%s' is not an IP address; names other than localhost are "
                          "not looked up",
                          text, host);
    }
    *ret_address = address;
    return 0;
}

/* sin_port and sin6_port lie at the same place. */
static uint16_t port_of(const union tcp_address *address)
{
    return ntohs(address->v4.sin_port);
}

static int refuse_taken(const char *text, uint16_t port, struct cr_err *err)
{
    struct cr_port_holder holder;

    if (cr_port_holder_find(port, &holder) < 0)
        return cr_err_set(err, EADDRINUSE, "listen on %s: port %u is taken by another process",
                          text, (unsigned)port);
    if (holder.pid == 0)
        return cr_err_set(err, EADDRINUSE,
                          "listen on %s: port %u is taken by a process of user %u; "
                          "'sudo ss -ltnp sport = :%u' names it",
                          text, (unsigned)port, holder.uid, (unsigned)port);
    return cr_err_set(err, EADDRINUSE, "listen on %s: port %u is taken by process %ld (%s)", text,
                      (unsigned)port, (long)holder.pid, holder.name);
}

static int open_tcp(const char *text, struct cr_listen *ret_listen, struct cr_err *err)
{
    CR_AUTO_CLOSE int fd = -1;
    const int on = 1;
    union tcp_address address = {0};
    socklen_t size = 0;
    int r = parse_tcp(text, &address, &size, err);

    if (r < 0)
        return r;
    fd = socket(address.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return cr_err_sys(err, errno, "make a TCP socket for %s", text);
    /* A restart must not wait for connections in TIME_WAIT; two listeners stay impossible. */
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0)
        return cr_err_sys(err, errno, "set SO_REUSEADDR for %s", text);
    if (bind(fd, &address.any, size) < 0 || listen(fd, CR_LISTEN_BACKLOG) < 0) {
        if (errno == EADDRINUSE)
            return refuse_taken(text, port_of(&address), err);
        return cr_err_sys(err, errno, "listen on %s", text);
    }
    size = sizeof(address);
    if (getsockname(fd, &address.any, &size) < 0)
        return cr_err_sys(err, errno, "read the port of %s", text);
    *ret_listen = (struct cr_listen)CR_LISTEN_INIT;
    ret_listen->port = port_of(&address);
    ret_listen->fd = cr_take_fd(&fd);
    return 0;
}

/* ---- both ---- */

int cr_listen_check(const char *address, struct cr_err *err)
{
    union tcp_address tcp;
    socklen_t size;

    if (strncmp(address, "unix:", 5) == 0)
        return cr_listen_unix_check(address + 5, err);
    return parse_tcp(address, &tcp, &size, err);
}

int cr_listen_open(const char *address, uid_t owner, struct cr_listen *ret_listen,
                   struct cr_err *err)
{
    if (strncmp(address, "unix:", 5) == 0)
        return cr_listen_unix_open(address + 5, owner, ret_listen, err);
    return open_tcp(address, ret_listen, err);
}

void cr_listen_close(struct cr_listen *listen)
{
    if (listen->fd >= 0 && listen->path[0])
        cr_listen_unix_remove(listen);
    cr_close_fd(&listen->fd);
    cr_close_fd(&listen->lock_fd);
    listen->path[0] = '\0';
    listen->port = 0;
}
