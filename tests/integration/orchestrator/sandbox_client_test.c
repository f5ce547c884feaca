/* SPDX-License-Identifier: Apache-2.0 */
#include "common/clock.h"
#include "common/err.h"
#include "common/log.h"
#include "crisol/sandbox/v1/sandbox.pb-c.h"
#include "orchestrator/sandbox/sandbox.h"
#include "rpc/channel.h"
#include "rpc/connection.h"
#include "rpc/server.h"
#include "rpc/status.h"
#include "tests/harness/rpc_group.h"
#include "tests/harness/test.h"

#include <poll.h>
#include <string.h>

#include <sys/socket.h>

#define PATIENCE_NS (30 * CR_NS_PER_S)

/* What the sandboxd of this test does with an Execute. */
enum behaviour {
    SEND_RESULT,
    END_WITHOUT_RESULT,
    REFUSE,
    HOLD,
};

struct fixture {
    enum behaviour behaviour; /* set before the call */
    bool is_spread;           /* over several sandboxd, all of them this one */
    int refusals;             /* before it behaves so; the server's thread */
    int calls;                /* atomic: that the server saw */
    int cancels;              /* atomic: calls that the server saw cancelled */
    struct rpc_server *server;
    struct rpc_channel *channel;
    struct rpc_loop *loop;
    struct agt_sandbox *sandbox;
    /* What the handlers saw; read after has_ended. */
    int events; /* atomic */
    int has_result;
    struct rpc_status status;
    int has_ended; /* atomic */
};

static void send_output(struct rpc_call *call)
{
    Crisol__Sandbox__V1__ExecuteResponse event = CRISOL__SANDBOX__V1__EXECUTE_RESPONSE__INIT;
    Crisol__Sandbox__V1__Output output = CRISOL__SANDBOX__V1__OUTPUT__INIT;

    event.event_case = CRISOL__SANDBOX__V1__EXECUTE_RESPONSE__EVENT_OUTPUT;
    event.output = &output;
    assert_true(rpc_call_send(call, &event.base));
}

static void on_execute(struct rpc_call *call, const ProtobufCMessage *message)
{
    struct fixture *fixture = rpc_call_context(call);
    struct rpc_status status = RPC_STATUS_INIT;

    (void)message;
    (void)__atomic_fetch_add(&fixture->calls, 1, __ATOMIC_RELEASE);
    if (fixture->behaviour != REFUSE && fixture->refusals-- <= 0) {
        send_output(call);
        return;
    }
    rpc_status_set(&status, RPC_RESOURCE_EXHAUSTED, "the queue is full");
    status.retry_after_ms = 1500;
    rpc_call_finish(call, &status, NULL);
}

static void on_writable(struct rpc_call *call)
{
    const struct fixture *fixture = rpc_call_context(call);
    Crisol__Sandbox__V1__ExecuteResponse event = CRISOL__SANDBOX__V1__EXECUTE_RESPONSE__INIT;
    Crisol__Sandbox__V1__ExecuteResult result = CRISOL__SANDBOX__V1__EXECUTE_RESULT__INIT;

    event.event_case = CRISOL__SANDBOX__V1__EXECUTE_RESPONSE__EVENT_RESULT;
    event.result = &result;
    if (fixture->behaviour != HOLD)
        rpc_call_finish(call, NULL, fixture->behaviour == SEND_RESULT ? &event.base : NULL);
}

static void on_cancel(struct rpc_call *call)
{
    struct fixture *fixture = rpc_call_context(call);

    (void)__atomic_fetch_add(&fixture->cancels, 1, __ATOMIC_RELEASE);
}

static const struct rpc_method methods[] = {
    {
        .path = "/crisol.sandbox.v1.SandboxService/Execute",
        .kind = RPC_SERVER_STREAM,
        .request = &crisol__sandbox__v1__execute_request__descriptor,
        .response = &crisol__sandbox__v1__execute_response__descriptor,
        .on_message = on_execute,
        .on_writable = on_writable,
        .on_cancel = on_cancel,
    },
    {.path = NULL},
};

static void on_get_capabilities(struct rpc_call *call, const ProtobufCMessage *message)
{
    Crisol__Sandbox__V1__GetCapabilitiesResponse response =
        CRISOL__SANDBOX__V1__GET_CAPABILITIES_RESPONSE__INIT;
    Crisol__Sandbox__V1__Limits maxima = CRISOL__SANDBOX__V1__LIMITS__INIT;
    struct fixture *fixture = rpc_call_context(call);

    (void)message;
    (void)__atomic_fetch_add(&fixture->calls, 1, __ATOMIC_RELEASE);
    maxima.wall_time_ms = 5000;
    if (fixture->behaviour != END_WITHOUT_RESULT)
        response.maximum_limits = &maxima;
    rpc_call_finish(call, NULL, &response.base);
}

static const struct rpc_method capabilities_methods[] = {
    {
        .path = "/crisol.sandbox.v1.SandboxService/GetCapabilities",
        .kind = RPC_UNARY,
        .request = &crisol__sandbox__v1__get_capabilities_request__descriptor,
        .response = &crisol__sandbox__v1__get_capabilities_response__descriptor,
        .on_message = on_get_capabilities,
    },
    {.path = NULL},
};

static void set_up_spread(struct fixture *fixture, enum behaviour behaviour, bool is_spread)
{
    const struct rpc_method *const tables[] = {methods, capabilities_methods};
    const struct rpc_server_options options = {.context = fixture};
    const struct rpc_channel_options channel_options = {.target = "test"};
    const struct rpc_peer peer = {.is_unix = true, .uid = 1, .caller = "uid:1"};
    int fds[2];

    *fixture = (struct fixture){.behaviour = behaviour, .is_spread = is_spread};
    assert_int_equal(rpc_server_new(tables, 2, &options, &fixture->server, NULL), 0);
    assert_int_equal(rpc_server_start(fixture->server, NULL), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    assert_int_equal(rpc_server_add_connection(fixture->server, fds[0], &peer, NULL), 0);
    assert_int_equal(rpc_channel_new_fd(fds[1], &channel_options, &fixture->channel, NULL), 0);
    assert_int_equal(rpc_loop_new(&fixture->loop, NULL), 0);
    assert_int_equal(agt_sandbox_client_new(fixture->loop, fixture->channel, fixture->is_spread,
                                            &fixture->sandbox, NULL),
                     0);
}

static void set_up(struct fixture *fixture, enum behaviour behaviour)
{
    set_up_spread(fixture, behaviour, false);
}

static void tear_down(struct fixture *fixture)
{
    (void)rpc_loop_free(fixture->loop);
    fixture->sandbox->ops->free(fixture->sandbox);
    (void)rpc_channel_free(fixture->channel);
    (void)rpc_server_drain(fixture->server, 5000);
    (void)rpc_server_free(fixture->server);
}

static void on_event(void *user, const ProtobufCMessage *event)
{
    const Crisol__Sandbox__V1__ExecuteResponse *response = (const void *)event;
    struct fixture *fixture = user;

    if (response->event_case == CRISOL__SANDBOX__V1__EXECUTE_RESPONSE__EVENT_RESULT)
        fixture->has_result = 1;
    (void)__atomic_fetch_add(&fixture->events, 1, __ATOMIC_RELEASE);
}

static void on_end(void *user, const struct rpc_status *status)
{
    struct fixture *fixture = user;

    fixture->status = *status;
    (void)__atomic_fetch_add(&fixture->has_ended, 1, __ATOMIC_RELEASE);
}

static void wait_for(const int *counter)
{
    int64_t due_ns = cr_clock_mono_ns() + PATIENCE_NS;

    while (__atomic_load_n(counter, __ATOMIC_ACQUIRE) == 0 && cr_clock_mono_ns() < due_ns)
        (void)poll(NULL, 0, 1);
    assert_int_equal(__atomic_load_n(counter, __ATOMIC_ACQUIRE), 1);
}

static struct agt_sandbox_call *execute(struct fixture *fixture, int deadline_ms)
{
    Crisol__Sandbox__V1__ExecuteRequest request = CRISOL__SANDBOX__V1__EXECUTE_REQUEST__INIT;
    struct agt_sandbox_handlers handlers = {on_event, on_end, fixture};
    struct agt_sandbox_call *call = NULL;

    assert_int_equal(fixture->sandbox->ops->execute(fixture->sandbox, &request.base, deadline_ms,
                                                    &handlers, &call, NULL),
                     0);
    return call;
}

static void events_come_in_order_and_then_the_end(void **state)
{
    struct fixture fixture;
    struct agt_sandbox_call *call;

    (void)state;
    set_up(&fixture, SEND_RESULT);
    call = execute(&fixture, 10000);
    wait_for(&fixture.has_ended);

    assert_int_equal(fixture.status.code, RPC_OK);
    assert_int_equal(fixture.events, 2);
    assert_int_equal(fixture.has_result, 1);
    fixture.sandbox->ops->cancel(call); /* too late, and harmless */
    fixture.sandbox->ops->unref(call);
    tear_down(&fixture);
}

static void end_without_a_result_is_not_ok(void **state)
{
    struct fixture fixture;

    (void)state;
    set_up(&fixture, END_WITHOUT_RESULT);
    fixture.sandbox->ops->unref(execute(&fixture, 10000));
    wait_for(&fixture.has_ended);

    assert_int_equal(fixture.status.code, RPC_INTERNAL);
    assert_string_equal(fixture.status.message, "sandboxd ended the call without a result");
    tear_down(&fixture);
}

static void refusal_comes_through_with_its_wait(void **state)
{
    struct fixture fixture;

    (void)state;
    set_up(&fixture, REFUSE);
    fixture.sandbox->ops->unref(execute(&fixture, 10000));
    wait_for(&fixture.has_ended);

    assert_int_equal(fixture.status.code, RPC_RESOURCE_EXHAUSTED);
    assert_string_equal(fixture.status.message, "the queue is full");
    assert_int_equal(fixture.status.retry_after_ms, 1500);
    tear_down(&fixture);
}

static void an_execution_that_is_refused_goes_to_the_next(void **state)
{
    struct fixture fixture;

    (void)state;
    set_up_spread(&fixture, SEND_RESULT, true);
    fixture.refusals = 2;
    fixture.sandbox->ops->unref(execute(&fixture, 10000));
    wait_for(&fixture.has_ended);

    assert_int_equal(fixture.status.code, RPC_OK);
    assert_int_equal(fixture.events, 2);
    assert_int_equal(fixture.calls, 3);
    tear_down(&fixture);
}

static void an_execution_that_all_refuse_is_refused(void **state)
{
    struct fixture fixture;

    (void)state;
    set_up_spread(&fixture, REFUSE, true);
    fixture.sandbox->ops->unref(execute(&fixture, 10000));
    wait_for(&fixture.has_ended);

    assert_int_equal(fixture.status.code, RPC_RESOURCE_EXHAUSTED);
    assert_int_equal(fixture.status.retry_after_ms, 1500);
    assert_int_equal(fixture.calls, 4);
    tear_down(&fixture);
}

/* It may have run: who asked for it decides whether it may run again. */
static void an_execution_that_began_goes_nowhere_else(void **state)
{
    struct fixture fixture;

    (void)state;
    set_up_spread(&fixture, HOLD, true);
    fixture.sandbox->ops->unref(execute(&fixture, 10000));
    wait_for(&fixture.events);
    (void)rpc_server_drain(fixture.server, 0);
    wait_for(&fixture.has_ended);

    assert_int_equal(fixture.status.code, RPC_UNAVAILABLE);
    assert_int_equal(fixture.calls, 1);
    tear_down(&fixture);
}

static bool wait_for_bounds(const struct fixture *fixture, struct agt_sandbox_bounds *ret_bounds)
{
    int64_t due_ns = cr_clock_mono_ns() + PATIENCE_NS;

    while (!fixture->sandbox->ops->get_bounds(fixture->sandbox, ret_bounds)) {
        if (cr_clock_mono_ns() >= due_ns)
            return false;
        fixture->sandbox->ops->look(fixture->sandbox); /* an answer that took too long is none */
        (void)poll(NULL, 0, 1);
    }
    return true;
}

static void what_sandboxd_allows_is_known_once_it_was_asked(void **state)
{
    struct agt_sandbox_bounds bounds;
    struct fixture fixture;

    (void)state;
    set_up(&fixture, SEND_RESULT);
    assert_false(fixture.sandbox->ops->get_bounds(fixture.sandbox, &bounds));
    assert_true(wait_for_bounds(&fixture, &bounds));
    assert_int_equal(bounds.most.wall_time_ms, 5000);
    assert_int_equal(bounds.most.open_files, 0);
    assert_int_equal(bounds.least.wall_time_ms, 0);

    (void)rpc_server_drain(fixture.server, 0); /* it is gone, and so is what it allows */
    for (int i = 0; i < 3000 && fixture.sandbox->ops->get_bounds(fixture.sandbox, &bounds); i++) {
        fixture.sandbox->ops->look(fixture.sandbox);
        (void)poll(NULL, 0, 10);
    }
    assert_false(fixture.sandbox->ops->get_bounds(fixture.sandbox, &bounds));
    tear_down(&fixture);

    set_up(&fixture, END_WITHOUT_RESULT); /* it says nothing of limits: none is known */
    assert_true(wait_for_bounds(&fixture, &bounds));
    assert_int_equal(bounds.most.wall_time_ms, 0);
    tear_down(&fixture);
}

static void cancel_reaches_sandboxd(void **state)
{
    struct fixture fixture;
    struct agt_sandbox_call *call;

    (void)state;
    set_up(&fixture, HOLD);
    call = execute(&fixture, 10000);
    wait_for(&fixture.events);
    fixture.sandbox->ops->cancel(call);
    fixture.sandbox->ops->cancel(call);
    fixture.sandbox->ops->unref(call);
    wait_for(&fixture.has_ended);
    wait_for(&fixture.cancels);

    assert_int_equal(fixture.status.code, RPC_CANCELLED);
    tear_down(&fixture);
}

static void deadline_ends_the_call(void **state)
{
    struct fixture fixture;

    (void)state;
    set_up(&fixture, HOLD);
    fixture.sandbox->ops->unref(execute(&fixture, 100));
    wait_for(&fixture.has_ended);

    assert_int_equal(fixture.status.code, RPC_DEADLINE_EXCEEDED);
    tear_down(&fixture);
}

static void unreachable_sandboxd_is_unavailable_and_no_path_is_told(void **state)
{
    const struct rpc_channel_options options = {.target = "unix:/nonexistent/sandboxd.sock"};
    struct fixture fixture = {.behaviour = HOLD};

    (void)state;
    cr_log_setup("test", CR_LOG_ERROR, CR_LOG_TEXT);
    assert_int_equal(rpc_channel_new(&options, &fixture.channel, NULL), 0);
    assert_int_equal(rpc_loop_new(&fixture.loop, NULL), 0);
    assert_int_equal(
        agt_sandbox_client_new(fixture.loop, fixture.channel, false, &fixture.sandbox, NULL), 0);
    fixture.sandbox->ops->unref(execute(&fixture, 10000));
    wait_for(&fixture.has_ended);

    assert_int_equal(fixture.status.code, RPC_UNAVAILABLE);
    assert_non_null(strstr(fixture.status.message, "sandboxd cannot be reached"));
    assert_null(strstr(fixture.status.message, "nonexistent"));
    (void)rpc_loop_free(fixture.loop);
    fixture.sandbox->ops->free(fixture.sandbox);
    (void)rpc_channel_free(fixture.channel);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(events_come_in_order_and_then_the_end),
        cmocka_unit_test(end_without_a_result_is_not_ok),
        cmocka_unit_test(refusal_comes_through_with_its_wait),
        cmocka_unit_test(an_execution_that_is_refused_goes_to_the_next),
        cmocka_unit_test(an_execution_that_all_refuse_is_refused),
        cmocka_unit_test(an_execution_that_began_goes_nowhere_else),
        cmocka_unit_test(what_sandboxd_allows_is_known_once_it_was_asked),
        cmocka_unit_test(cancel_reaches_sandboxd),
        cmocka_unit_test(deadline_ends_the_call),
        cmocka_unit_test(unreachable_sandboxd_is_unavailable_and_no_path_is_told),
    };

    return cmocka_run_group_tests(tests, test_rpc_init, test_rpc_fini);
}
