/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "google/protobuf/any.pb-c.h"
#include "tests/harness/test.h"
#include "tests/integration/rpc/service.h"

#include <stdbool.h>

struct rpc_status;

/* A server of test_service in this process and one channel to it. */
struct fixture {
    struct test_service service;
    struct rpc_server *server;
    struct rpc_channel *channel;
    int fds_before;
};

/* Zeroed options are the defaults; context and descriptor set are filled in. */
void fixture_start(struct fixture *fixture, struct rpc_server_options options);

/* One more connection, with uid 1234 as its peer. */
struct rpc_channel *fixture_connect(struct fixture *fixture);

/* The other end of a connection, for what a client library would not send. */
int fixture_connect_raw(struct fixture *fixture);

/* Drains when that was not done, frees, and asserts that every fd is back. */
void fixture_stop(struct fixture *fixture);

/* One Echo. Returns the code. */
int fixture_echo(struct fixture *fixture, const char *type_url, int deadline_ms,
                 struct rpc_status *ret_status);

/* Waits until `*counter` is at least `value`; asserts that it takes less than 10 s. */
void wait_for_count(atomic_int *counter, int value);
