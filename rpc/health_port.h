/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct cr_err;

/*
 * grpc.health.v1 alone, in plain text, on a port and threads of its own: what
 * an orchestrator of containers probes, which has neither certificate nor
 * token, and which must not wait behind the service's own calls.
 *
 * "liveness" serves as long as the process turns. "", "readiness" and what is
 * set begin as not serving. "startup" serves from the first time on that what is
 * set does: who waits for others to become ready is not started anew for it.
 */
struct rpc_health_port;

/* `fd` (taken on success) is a listening socket; -1: one on `address` ("host:port") is made. */
int rpc_health_port_new(const char *address, int fd, struct rpc_health_port **ret_port,
                        struct cr_err *err);

/* Sets `service` and, once and for all when it is first true, "startup". Any thread. */
void rpc_health_port_set(struct rpc_health_port *port, const char *service, bool is_serving);

/* Sets "" and "readiness". Any thread. */
void rpc_health_port_set_ready(struct rpc_health_port *port, bool is_ready);

/* The TCP port. */
uint16_t rpc_health_port_number(const struct rpc_health_port *port);

/* NULL is allowed; returns NULL. */
struct rpc_health_port *rpc_health_port_free(struct rpc_health_port *port);
