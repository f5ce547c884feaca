/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/health_port.h"

#include "common/err.h"
#include "rpc/listener.h"
#include "rpc/server.h"

#include <stdlib.h>

#define GRACE_MS 200

struct rpc_health_port {
    struct rpc_server *server;
    struct rpc_listener *listener;
};

static int start(struct rpc_health_port *port, const char *address, int fd, struct cr_err *err)
{
    const struct rpc_server_options options = {.max_calls = 256, .max_streams = 16};
    int r = rpc_server_new(NULL, 0, &options, &port->server, err);

    if (r == 0)
        r = rpc_server_start(port->server, err);
    if (r == 0)
        r = rpc_listener_new(port->server, NULL, &port->listener, err);
    if (r == 0)
        r = fd >= 0 ? rpc_listener_take_fd(port->listener, fd, err)
                    : rpc_listener_add(port->listener, address, err);
    if (r == 0)
        r = rpc_listener_start(port->listener, err);
    return r;
}

int rpc_health_port_new(const char *address, int fd, struct rpc_health_port **ret_port,
                        struct cr_err *err)
{
    struct rpc_health_port *port = calloc(1, sizeof(*port));
    int r;

    if (!port)
        return cr_err_set(err, ENOMEM, "out of memory for the port of health");
    r = start(port, address, fd, err);
    if (r < 0) {
        (void)rpc_health_port_free(port);
        return r;
    }
    rpc_server_set_serving(port->server, "liveness", true);
    rpc_server_set_serving(port->server, "readiness", false);
    rpc_server_set_serving(port->server, "startup", false);
    *ret_port = port;
    return 0;
}

void rpc_health_port_set(struct rpc_health_port *port, const char *service, bool is_serving)
{
    rpc_server_set_serving(port->server, service, is_serving);
    if (is_serving)
        rpc_server_set_serving(port->server, "startup", true);
}

void rpc_health_port_set_ready(struct rpc_health_port *port, bool is_ready)
{
    rpc_server_set_serving(port->server, "", is_ready);
    rpc_server_set_serving(port->server, "readiness", is_ready);
}

uint16_t rpc_health_port_number(const struct rpc_health_port *port)
{
    return rpc_listener_port(port->listener, 0);
}

struct rpc_health_port *rpc_health_port_free(struct rpc_health_port *port)
{
    if (!port)
        return NULL;
    if (port->listener)
        rpc_listener_stop(port->listener);
    if (port->server)
        (void)rpc_server_drain(port->server, GRACE_MS);
    (void)rpc_listener_free(port->listener);
    (void)rpc_server_free(port->server);
    free(port);
    return NULL;
}
