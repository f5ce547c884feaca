/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "tests/harness/doubles.h"

#include <stdbool.h>
#include <stdint.h>

struct agt_engine;
struct agt_http;
struct agt_runs;
struct agt_store;
struct rpc_channel;
struct rpc_loop;
struct rpc_server;

/*
 * The server as main puts it together, on doubles of the model and of
 * sandboxd's Execute; its ListRuntimes and GetCapabilities are behind real gRPC.
 */
struct http_house {
    struct agt_model *model;
    struct agt_sandbox *sandbox;
    struct agt_store *store; /* NULL: none */
    struct agt_engine *engine;
    struct agt_runs *runs;
    struct rpc_server *server; /* sandboxd's ListRuntimes and GetCapabilities */
    struct rpc_loop *loop;
    struct rpc_channel *channel;
    struct agt_http *http;
    uint16_t port;
};

/* Scripts, and the store, may be NULL. Without a key the model cannot be asked. */
void http_house_start(struct http_house *house, struct agt_store *take_store,
                      double_model_script model, double_sandbox_script sandbox, bool has_key);

/* False when the server did not stop cleanly. */
bool http_house_stop(struct http_house *house);
