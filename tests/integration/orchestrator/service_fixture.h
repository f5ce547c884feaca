/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "crisol/agent/v1/agent.pb-c.h"
#include "orchestrator/service/agent.h"
#include "rpc/client.h"
#include "tests/harness/engine_fixture.h"

#include <stdbool.h>
#include <stdint.h>

struct agt_store;
struct rpc_channel;
struct rpc_server;

/* A method of the service, as a client calls it. */
#define SERVICE_METHOD(name, snake)                                                                \
    {                                                                                              \
        .path = "/crisol.agent.v1.AgentService/" name,                                             \
        .request = &crisol__agent__v1__##snake##_request__descriptor,                              \
        .response = &crisol__agent__v1__##snake##_response__descriptor,                            \
    }

/* How long a test waits for what has to come. */
#define SERVICE_PATIENCE_NS (30 * CR_NS_PER_S)

/* What the model does, and the tests with its code. */
enum {
    SERVICE_SOLVE,
    SERVICE_HOLD,
    SERVICE_BIG,   /* plans `big_plan`, in pieces */
    SERVICE_STALL, /* on a store: the same code again, until there is a hint */
};

#define SERVICE_HINT "Mind the carry."

/* AgentService over real gRPC, on an engine with doubles of the model and of sandboxd. */
struct service_fixture {
    struct engine_fixture engine; /* first: scripts get it */
    struct agt_service service;
    struct agt_store *store; /* NULL: none */
    struct rpc_server *server;
    struct rpc_channel *channel;
    const char *big_plan; /* set after the start. Owned by the test */
};

void service_fixture_start(struct service_fixture *fixture, int mode);

/* Asserts that every fd is back. */
void service_fixture_stop(struct service_fixture *fixture);

/* Until no run goes on. */
void service_fixture_wait_idle(const struct service_fixture *fixture);

/* What a client has seen of a stream. */
struct service_seen {
    uint32_t seq;
    uint32_t states;
    uint32_t gaps;
    uint32_t dropped;
    uint32_t results;
    uint32_t deltas;
    Crisol__Agent__V1__RunStatus status; /* of the result */
    char run_id[33];                     /* likewise */
    uint32_t stop_after;                 /* messages; 0: never */
};

/* Counts a GenerateStreamResponse, or ResumeRun's, in the struct service_seen that `user` is;
 * asserts that state events are numbered without a gap and that nothing follows the result. False:
 * it has seen enough. */
bool service_seen_event(void *user, const ProtobufCMessage *message);
