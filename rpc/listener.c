/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/listener.h"

#include "common/edge.h"
#include "common/err.h"
#include "rpc/listener_loop.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include <netinet/in.h>
#include <sys/socket.h>

static int copy_options(struct rpc_listener *listener, const struct rpc_listener_options *options,
                        struct cr_err *err)
{
    struct cr_edge *edge = &listener->edge;

    if (options->edge)
        *edge = *options->edge;
    else
        cr_edge_defaults(edge);
    listener->unix_limits = (struct rpc_quota_limits){.max_connections = edge->max_user_connections,
                                                      .accepts = edge->user_accepts};
    listener->tcp_limits = (struct rpc_quota_limits){
        .max_connections = edge->max_address_connections, .accepts = edge->address_accepts};
    listener->host.edge = edge;
    listener->tls = options->tls;
    if (!options->allowed_uids)
        return 0;
    if (options->allowed_uid_count > RPC_LISTENER_UIDS_MAX)
        return cr_err_set(err, E2BIG, "%zu users are allowed to connect; at most %u can be",
                          options->allowed_uid_count, RPC_LISTENER_UIDS_MAX);
    listener->has_uids = true;
    listener->uid_count = options->allowed_uid_count;
    memcpy(listener->uids, options->allowed_uids,
           options->allowed_uid_count * sizeof(listener->uids[0]));
    return 0;
}

int rpc_listener_new(struct rpc_server *server, const struct rpc_listener_options *options,
                     struct rpc_listener **ret_listener, struct cr_err *err)
{
    static const struct rpc_listener_options defaults = {.edge = NULL};
    struct rpc_listener *listener = calloc(1, sizeof(*listener));
    int r;

    if (!listener)
        return cr_err_set(err, ENOMEM, "make a listener: out of memory");
    if (!options)
        options = &defaults;
    listener->server = server;
    listener->host.epoll_fd = listener->command_fd = listener->spare_fd = -1;
    (void)pthread_mutex_init(&listener->lock, NULL);
    (void)pthread_cond_init(&listener->changed, NULL);
    r = copy_options(listener, options, err);
    if (r == 0)
        r = rpc_listener_loop_open(listener, err);
    if (r == 0) {
        listener->quotas = rpc_quotas_new(listener->edge.max_connections);
        if (!listener->quotas)
            r = cr_err_set(err, ENOMEM, "make a listener: out of memory");
    }
    if (r < 0) {
        (void)rpc_listener_free(listener);
        return r;
    }
    *ret_listener = listener;
    return 0;
}

static int add_address(struct rpc_listener *listener, struct cr_listen *listen, bool is_unix,
                       struct cr_err *err)
{
    struct rpc_listener_address *address = &listener->addresses[listener->address_count];

    if (listener->address_count == RPC_LISTENER_ADDRESSES_MAX)
        return cr_err_set(err, E2BIG, "more than %u addresses to listen on",
                          RPC_LISTENER_ADDRESSES_MAX);
    if (listener->has_thread)
        return cr_err_set(err, EBUSY, "the listener has started already");
    *address = (struct rpc_listener_address){.watch = {.on_ready = rpc_listener_loop_accept},
                                             .listener = listener,
                                             .listen = *listen,
                                             .is_unix = is_unix};
    listener->address_count++;
    return 0;
}

int rpc_listener_add(struct rpc_listener *listener, const char *address, struct cr_err *err)
{
    struct cr_listen listen = CR_LISTEN_INIT;
    int r = cr_listen_open(address, (uid_t)-1, &listen, err);

    if (r < 0)
        return r;
    r = add_address(listener, &listen, listen.path[0] != '\0', err);
    if (r < 0)
        cr_listen_close(&listen);
    return r;
}

union socket_name {
    struct sockaddr any;
    struct sockaddr_in v4; /* sin_port and sin6_port lie at the same place */
    struct sockaddr_storage storage;
};

int rpc_listener_take_fd(struct rpc_listener *listener, int fd, struct cr_err *err)
{
    struct cr_listen listen = CR_LISTEN_INIT;
    union socket_name name = {0};
    socklen_t size = sizeof(name);
    int is_listening = 0;
    socklen_t option_size = sizeof(is_listening);
    int flags = fcntl(fd, F_GETFL);

    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0 ||
        fcntl(fd, F_SETFD, FD_CLOEXEC) < 0 || getsockname(fd, &name.any, &size) < 0 ||
        getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &is_listening, &option_size) < 0)
        return cr_err_sys(err, errno, "take fd %d as a listening socket", fd);
    if (!is_listening)
        return cr_err_set(err, EINVAL, "fd %d is not a listening socket", fd);
    listen.fd = fd;
    if (name.any.sa_family != AF_UNIX)
        listen.port = ntohs(name.v4.sin_port);
    return add_address(listener, &listen, name.any.sa_family == AF_UNIX, err);
}

uint16_t rpc_listener_port(const struct rpc_listener *listener, size_t index)
{
    return index < listener->address_count ? listener->addresses[index].listen.port : 0;
}

int rpc_listener_start(struct rpc_listener *listener, struct cr_err *err)
{
    return rpc_listener_loop_start(listener, err);
}

void rpc_listener_stop(struct rpc_listener *listener)
{
    if (listener->has_thread)
        rpc_listener_loop_command(listener, RPC_LISTENER_STOP);
    else
        rpc_listener_loop_close_addresses(listener);
}

struct rpc_listener *rpc_listener_free(struct rpc_listener *listener)
{
    if (!listener)
        return NULL;
    rpc_listener_loop_done(listener);
    listener->quotas = rpc_quotas_free(listener->quotas);
    (void)pthread_cond_destroy(&listener->changed);
    (void)pthread_mutex_destroy(&listener->lock);
    free(listener);
    return NULL;
}
