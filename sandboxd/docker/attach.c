/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/docker/attach.h"

#include "common/auto.h"
#include "common/err.h"
#include "sandboxd/docker/address.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <sys/socket.h>

#define HEAD_MAX 4096
#define HEAD_END "\r\n\r\n"

int sbx_attach_begin(const struct sbx_engine_address *address, struct cr_err *err)
{
    CR_AUTO_CLOSE int fd =
        socket(address->address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    const int on = 1;

    if (fd < 0)
        return cr_err_sys(err, errno, "open a socket to the docker engine");
    /* A tunnel whose other end is gone says nothing by itself. */
    if (address->is_tcp && setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on)) < 0)
        return cr_err_sys(err, errno, "set up a socket to the docker engine");
    /* A unix socket connects at once, or its backlog is full, which is as good as no answer. */
    if (connect(fd, (const struct sockaddr *)&address->address, address->size) < 0 &&
        errno != EINPROGRESS)
        return cr_err_sys(err, errno, "connect to the docker engine at '%s'", address->name);
    return cr_take_fd(&fd);
}

int sbx_attach_ask(int socket_fd, const char *version, const char *id, struct cr_err *err)
{
    char request[512];
    int error = 0;
    socklen_t error_size = sizeof(error);
    int size =
        snprintf(request, sizeof(request),
                 "POST %s/containers/%s/attach?stream=1&stdin=1&stdout=1&stderr=1 HTTP/1.1\r\n"
                 "Host: docker\r\nConnection: Upgrade\r\nUpgrade: tcp\r\nContent-Length: 0\r\n\r\n",
                 version, id);

    if (size < 0 || (size_t)size >= sizeof(request))
        return cr_err_set(err, ENAMETOOLONG, "attach to a container");
    if (getsockopt(socket_fd, SOL_SOCKET, SO_ERROR, &error, &error_size) < 0 || error != 0)
        return cr_err_sys(err, error ? error : errno, "connect to the docker engine");
    errno = 0;
    if (send(socket_fd, request, (size_t)size, MSG_NOSIGNAL) != size)
        return cr_err_sys(err, errno ? errno : EIO, "attach to a container");
    return 0;
}

int sbx_attach_end(int socket_fd, struct cr_err *err)
{
    char head[HEAD_MAX + 1];
    const char *end;
    ssize_t n = recv(socket_fd, head, HEAD_MAX, MSG_PEEK | MSG_DONTWAIT);
    size_t size;

    if (n < 0)
        return errno == EAGAIN || errno == EINTR ? -EAGAIN
                                                 : cr_err_sys(err, errno, "attach to a container");
    head[n] = '\0';
    end = strstr(head, HEAD_END);
    if (!end)
        return n == 0 || n == HEAD_MAX
                   ? cr_err_set(err, n == 0 ? ECONNRESET : EPROTO,
                                "the docker engine does not attach to a container")
                   : -EAGAIN;
    if (strncmp(head, "HTTP/1.1 101 ", 13) != 0)
        return cr_err_set(err, EPROTO, "the docker engine does not attach to a container: %.*s",
                          (int)strcspn(head, "\r\n"), head);
    size = (size_t)(end - head) + strlen(HEAD_END);
    return recv(socket_fd, head, size, MSG_DONTWAIT) == (ssize_t)size
               ? 0
               : cr_err_set(err, EPROTO, "attach to a container");
}
