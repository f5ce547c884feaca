/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "rpc/listener.h"
#include "tests/harness/test.h"
#include "tests/integration/rpc/service.h"

#include <stdint.h>

/* A server of test_service behind a listener, on a unix socket and on a TCP port of its own. */
struct listening {
    struct test_service service;
    struct rpc_server *server;
    struct rpc_listener *listener;
    char folder[48];
    char unix_address[80]; /* "unix:/…" */
    char tcp_address[32];  /* "127.0.0.1:…" */
    uint16_t port;
    int fds_before;
};

void listening_start(struct listening *listening, struct rpc_listener_options options);

/* Stops, drains, frees; asserts that files and fds are gone. */
void listening_stop(struct listening *listening);

struct rpc_channel *listening_connect(const char *address);

/* One Echo of `text` over the channel. Returns the code. */
int listening_echo(struct rpc_channel *channel, const char *text, int deadline_ms);

/* One Echo over a new connection. */
int listening_echo_once(const char *address, int deadline_ms);

/* A plain connected socket, blocking; -1 with errno. */
int listening_raw(const struct listening *listening, bool is_unix);

/* Waits until the other side has closed the socket; asserts that it takes less than 10 s. */
void wait_for_close(int fd);
