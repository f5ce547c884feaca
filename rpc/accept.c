/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/accept.h"

#include "common/auto.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

union address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
    struct sockaddr_storage storage;
};

void rpc_accept_get_spare(int *spare_fd)
{
    if (*spare_fd < 0)
        *spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

/* accept(2) wants a free descriptor before it looks whether anybody waits: often nobody does. */
static enum rpc_accept_result refuse_one(int listen_fd, int *spare_fd)
{
    enum rpc_accept_result result = RPC_ACCEPT_REFUSED;
    CR_AUTO_CLOSE int fd = -1;

    if (*spare_fd < 0)
        return RPC_ACCEPT_PAUSE;
    cr_close_fd(spare_fd);
    fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0)
        result = errno == EAGAIN ? RPC_ACCEPT_NOTHING : RPC_ACCEPT_PAUSE;
    cr_close_fd(&fd);
    rpc_accept_get_spare(spare_fd);
    return result;
}

static enum rpc_accept_result explain(int listen_fd, int *spare_fd, int errnum)
{
    switch (errnum) {
    case EAGAIN:
        return RPC_ACCEPT_NOTHING;
    case EMFILE:
    case ENFILE:
        return refuse_one(listen_fd, spare_fd);
    /* Faults of one connection, some of which accept(2) passes on from the network. */
    case EINTR:
    case ECONNABORTED:
    case EPROTO:
    case EPERM:
    case ENETDOWN:
    case ENETUNREACH:
    case EHOSTDOWN:
    case EHOSTUNREACH:
    case ENOPROTOOPT:
    case EOPNOTSUPP:
    case ENONET:
        return RPC_ACCEPT_LOST;
    default:
        return RPC_ACCEPT_PAUSE;
    }
}

static bool describe_unix(int fd, struct rpc_accepted *accepted)
{
    struct rpc_peer *peer = &accepted->peer;
    struct ucred credentials;
    socklen_t size = sizeof(credentials);

    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &size) < 0)
        return false;
    peer->is_unix = true;
    peer->uid = credentials.uid;
    peer->pid = credentials.pid;
    (void)snprintf(peer->caller, sizeof(peer->caller), "uid:%u", peer->uid);
    (void)snprintf(peer->address, sizeof(peer->address), "unix:pid=%d", (int)peer->pid);
    (void)snprintf(accepted->quota_key, sizeof(accepted->quota_key), "%s", peer->caller);
    return true;
}

static void describe_v4(const struct in_addr *address, in_port_t port,
                        struct rpc_accepted *accepted)
{
    char text[INET_ADDRSTRLEN] = "?";

    (void)inet_ntop(AF_INET, address, text, sizeof(text));
    (void)snprintf(accepted->peer.caller, sizeof(accepted->peer.caller), "ip:%s", text);
    (void)snprintf(accepted->peer.address, sizeof(accepted->peer.address), "%s:%u", text,
                   ntohs(port));
    (void)snprintf(accepted->quota_key, sizeof(accepted->quota_key), "ip:%s", text);
}

/* Whoever has one IPv6 address has the 2^64 of its network. */
static void describe_v6(const struct sockaddr_in6 *address, struct rpc_accepted *accepted)
{
    struct in6_addr network = address->sin6_addr;
    struct in_addr mapped;
    char text[INET6_ADDRSTRLEN] = "?";

    if (IN6_IS_ADDR_V4MAPPED(&address->sin6_addr)) {
        memcpy(&mapped, &address->sin6_addr.s6_addr[12], sizeof(mapped));
        describe_v4(&mapped, address->sin6_port, accepted);
        return;
    }
    (void)inet_ntop(AF_INET6, &address->sin6_addr, text, sizeof(text));
    (void)snprintf(accepted->peer.caller, sizeof(accepted->peer.caller), "ip:%s", text);
    (void)snprintf(accepted->peer.address, sizeof(accepted->peer.address), "[%s]:%u", text,
                   ntohs(address->sin6_port));
    memset(&network.s6_addr[8], 0, 8);
    (void)inet_ntop(AF_INET6, &network, text, sizeof(text));
    (void)snprintf(accepted->quota_key, sizeof(accepted->quota_key), "net:%s", text);
}

static void describe_tcp(int fd, const union address *address, struct rpc_accepted *accepted)
{
    const int on = 1;

    /* Frames are small; without this an answer can wait 40 ms for an acknowledgement. */
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    if (address->any.sa_family == AF_INET6)
        describe_v6(&address->v6, accepted);
    else
        describe_v4(&address->v4.sin_addr, address->v4.sin_port, accepted);
}

enum rpc_accept_result rpc_accept(int listen_fd, bool is_unix, int *spare_fd,
                                  struct rpc_accepted *ret_accepted)
{
    union address address = {0};
    socklen_t size = sizeof(address);
    CR_AUTO_CLOSE int fd = accept4(listen_fd, &address.any, &size, SOCK_CLOEXEC | SOCK_NONBLOCK);
    struct rpc_accepted accepted = {.fd = -1};

    if (fd < 0)
        return explain(listen_fd, spare_fd, errno);
    if (!is_unix)
        describe_tcp(fd, &address, &accepted);
    else if (!describe_unix(fd, &accepted))
        return RPC_ACCEPT_LOST;
    accepted.fd = cr_take_fd(&fd);
    *ret_accepted = accepted;
    return RPC_ACCEPT_DONE;
}
