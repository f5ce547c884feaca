/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "orchestrator/http/server.h"

#include <stdbool.h>
#include <stdint.h>

struct agt_engine;
struct agt_runs;
struct agt_sandbox;

/* A server on doubles, on a free port of loopback. */
struct http_fixture {
    struct agt_http *http;
    struct agt_engine *engine;
    struct agt_runs *runs;
    struct agt_sandbox *sandbox;
    uint16_t port;
    int fds_before;
};

/* `options` may be NULL; engine, sandbox and address are filled in. */
void http_fixture_start(struct http_fixture *fixture, const struct agt_http_options *options);

/* Stops within `grace_ms`, and checks that nothing is left: runs, watches, executions, fds. Returns
 * what agt_http_stop() returned. */
bool http_fixture_stop(struct http_fixture *fixture, int grace_ms);
