/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/integration/orchestrator/service_fixture.h"

#include "common/clock.h"
#include "orchestrator/runs/runs.h"
#include "rpc/channel.h"
#include "rpc/connection.h"
#include "rpc/server.h"
#include "tests/harness/double_store.h"
#include "tests/harness/test.h"

#include <poll.h>
#include <string.h>

#include <sys/socket.h>

#define EVENT(name) CRISOL__AGENT__V1__RUN_EVENT__EVENT_##name

static void answer(void *user, const struct agt_model_request *request,
                   struct double_answer *ret_answer)
{
    const struct service_fixture *fixture = user;
    int mode = fixture->engine.mode;

    double_solve(NULL, request, ret_answer);
    ret_answer->is_held = mode == SERVICE_HOLD;
    if (mode == SERVICE_STALL && strcmp(request->purpose, "plan") != 0 &&
        !strstr(request->prompt, SERVICE_HINT))
        ret_answer->text = double_good_files;
    if (mode == SERVICE_BIG) {
        ret_answer->delta_size = 4096;
        if (strcmp(request->purpose, "plan") == 0)
            ret_answer->text = __atomic_load_n(&fixture->big_plan, __ATOMIC_ACQUIRE);
    }
}

static void fail_good_files(void *user, const Crisol__Sandbox__V1__ExecuteRequest *request,
                            struct double_execution *ret_execution)
{
    const struct engine_fixture *fixture = user;

    double_pass(user, request, ret_execution);
    if (fixture->mode != SERVICE_STALL || strstr(request->files[0]->text, "T = 1"))
        return;
    ret_execution->exit_code = 1;
    ret_execution->failed = 1;
}

void service_fixture_start(struct service_fixture *fixture, int mode)
{
    const struct rpc_method *const tables[] = {agt_service_methods};
    const struct rpc_server_options options = {.context = &fixture->service};
    const struct rpc_channel_options channel_options = {.target = "test"};
    const struct rpc_peer peer = {.is_unix = true, .uid = 1, .caller = "uid:1"};
    struct agt_engine_options engine_options = {.retry_base_ms = 1};
    struct agt_runs_options runs_options = {0};
    int fds[2];

    *fixture = (struct service_fixture){.engine.mode = mode};
    fixture->store = mode == SERVICE_STALL ? double_store_new() : NULL;
    engine_options.store = fixture->store;
    engine_fixture_start(&fixture->engine, answer, fail_good_files, &engine_options);
    runs_options.engine = fixture->engine.engine;
    runs_options.store = fixture->store;
    assert_int_equal(agt_runs_new(&runs_options, &fixture->service.runs, NULL), 0);
    assert_int_equal(rpc_server_new(tables, 1, &options, &fixture->server, NULL), 0);
    assert_int_equal(rpc_server_start(fixture->server, NULL), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    assert_int_equal(rpc_server_add_connection(fixture->server, fds[0], &peer, NULL), 0);
    assert_int_equal(rpc_channel_new_fd(fds[1], &channel_options, &fixture->channel, NULL), 0);
}

/* Core closes its fds in its own time. */
static void wait_for_fds(int count)
{
    int64_t due_ns = cr_clock_mono_ns() + SERVICE_PATIENCE_NS;

    while (test_count_fds() > count && cr_clock_mono_ns() < due_ns)
        (void)poll(NULL, 0, 1);
}

void service_fixture_stop(struct service_fixture *fixture)
{
    int fds = fixture->engine.fds_before;

    (void)rpc_channel_free(fixture->channel);
    (void)rpc_server_drain(fixture->server, 5000);
    (void)rpc_server_free(fixture->server);
    wait_for_fds(fds + 1); /* the engine's mailbox */
    (void)agt_runs_free(fixture->service.runs);
    engine_fixture_stop(&fixture->engine);
    if (fixture->store)
        fixture->store->ops->free(fixture->store);
}

void service_fixture_wait_idle(const struct service_fixture *fixture)
{
    int64_t due_ns = cr_clock_mono_ns() + SERVICE_PATIENCE_NS;

    while (agt_engine_live_runs(fixture->engine.engine) > 0 && cr_clock_mono_ns() < due_ns)
        (void)poll(NULL, 0, 1);
    assert_int_equal(agt_engine_live_runs(fixture->engine.engine), 0);
}

static bool is_delta(const Crisol__Agent__V1__RunEvent *event)
{
    return event->event_case == EVENT(MODEL_DELTA) || event->event_case == EVENT(OUTPUT_DELTA) ||
           event->event_case == EVENT(GAP) || event->event_case == EVENT(HEARTBEAT);
}

bool service_seen_event(void *user, const ProtobufCMessage *message)
{
    const Crisol__Agent__V1__GenerateStreamResponse *response = (const void *)message;
    const Crisol__Agent__V1__RunEvent *event = response->event;
    struct service_seen *seen = user;

    assert_int_equal(seen->results, 0);
    if (event->event_case == EVENT(GAP)) {
        seen->gaps++;
        seen->dropped += event->gap->dropped_deltas;
    } else if (is_delta(event)) {
        seen->deltas++;
    } else {
        assert_int_equal(event->seq, seen->seq + 1);
        seen->seq = event->seq;
        seen->states++;
    }
    if (event->event_case == EVENT(RESULT)) {
        seen->results++;
        seen->status = event->result->status;
        (void)memccpy(seen->run_id, event->run_id, '\0', sizeof(seen->run_id) - 1);
    }
    return seen->stop_after == 0 || seen->states < seen->stop_after;
}
