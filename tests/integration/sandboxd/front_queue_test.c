/* SPDX-License-Identifier: Apache-2.0 */
#include "common/clock.h"
#include "rpc/status.h"
#include "sandboxd/runtimes/table.h"
#include "tests/harness/test.h"
#include "tests/integration/sandboxd/fake_backend.h"

#include <poll.h>
#include <string.h>

#define SOME_MS 20
#define PATIENCE_NS (30 * CR_NS_PER_S)

/* The whole microseconds since then. */
static uint64_t us_since(int64_t then_ns)
{
    return (uint64_t)((cr_clock_mono_ns() - then_ns) / CR_NS_PER_US);
}

static void wait_for_waiting(struct fake *fake, uint32_t count)
{
    int64_t deadline_ns = cr_clock_mono_ns() + PATIENCE_NS;
    struct sbx_backend_load load;

    do {
        assert_true(cr_clock_mono_ns() < deadline_ns);
        (void)poll(NULL, 0, 1);
        sbx_backend_get_load(fake->backend, &load);
    } while (load.waiting != count);
}

static void run_waits_for_a_slot_and_says_how_long(void **state)
{
    struct fake_client first;
    struct fake_client second;
    struct fake_run run;
    struct fake fake;
    int64_t before_ns;
    uint64_t started_us;
    uint64_t waited_us;

    (void)state;
    fake_open(&fake, 1, 4);
    before_ns = cr_clock_mono_ns();
    client_submit_plain(&first, &fake, "a");
    fake_start(&fake, &run);
    started_us = us_since(before_ns);
    client_submit_plain(&second, &fake, "b");
    wait_for_waiting(&fake, 1);
    before_ns = cr_clock_mono_ns();
    assert_true(fake_is_silent(&fake));
    (void)poll(NULL, 0, SOME_MS);
    waited_us = us_since(before_ns);
    fake_finish(&fake, &run, SBX_VERDICT_OK);
    (void)client_wait_end(&first);
    fake_start(&fake, &run);
    fake_finish(&fake, &run, SBX_VERDICT_OK);

    assert_true(client_wait_end(&second)->queue_us >= waited_us);
    assert_true(sbx_execution_outcome(first.execution)->queue_us <= started_us);
    client_done(&first);
    client_done(&second);
    fake_close(&fake);
}

/* Two slots, and memory for one run and a half: the second waits although a slot is free. */
static void run_waits_for_the_memory_that_it_was_promised(void **state)
{
    struct fake_client first;
    struct fake_client second;
    struct fake_run run;
    struct fake fake;
    union sbx_msg msg;

    (void)state;
    fake_open(&fake, 0, 4);
    fake_hello(&msg, 2);
    msg.hello.memory_bytes = sbx_default_limits.value[SBX_LIMIT_MEMORY] * 3 / 2;
    fake_send(&fake, &msg);
    fake_wait_up(&fake, true);
    client_submit_plain(&first, &fake, "a");
    fake_start(&fake, &run);
    client_submit_plain(&second, &fake, "b");
    assert_true(fake_is_silent(&fake));
    fake_finish(&fake, &run, SBX_VERDICT_OK);
    (void)client_wait_end(&first);
    fake_start(&fake, &run);
    fake_finish(&fake, &run, SBX_VERDICT_OK);
    assert_int_equal(client_wait_end(&second)->result.verdict, SBX_VERDICT_OK);
    client_done(&first);
    client_done(&second);
    fake_close(&fake);
}

static void run_is_refused_when_the_queue_is_full(void **state)
{
    struct fake_client clients[3];
    const struct sbx_outcome *outcome;
    struct fake_run run;
    struct fake fake;

    (void)state;
    fake_open(&fake, 1, 1);
    client_submit_plain(&clients[0], &fake, "a");
    fake_start(&fake, &run);
    client_submit_plain(&clients[1], &fake, "a");
    client_submit_plain(&clients[2], &fake, "a");

    outcome = client_wait_end(&clients[2]);
    assert_int_equal(outcome->refusal, RPC_RESOURCE_EXHAUSTED);
    assert_string_equal(outcome->refusal_reason, "QUEUE_FULL");
    assert_true(outcome->retry_after_ms > 0);
    assert_false(clients[2].has_started);
    fake_finish(&fake, &run, SBX_VERDICT_OK);
    fake_start(&fake, &run);
    fake_finish(&fake, &run, SBX_VERDICT_OK);
    assert_int_equal(client_wait_end(&clients[1])->refusal, RPC_OK);
    (void)client_wait_end(&clients[0]);
    for (size_t i = 0; i < 3; i++)
        client_done(&clients[i]);
    fake_close(&fake);
}

static void waiting_run_of_a_greedy_caller_makes_room_for_another_caller(void **state)
{
    struct fake_client running;
    struct fake_client greedy[2];
    struct fake_client other;
    struct fake_run run;
    struct fake fake;

    (void)state;
    fake_open(&fake, 1, 2);
    client_submit_plain(&running, &fake, "greedy");
    fake_start(&fake, &run);
    client_submit_plain(&greedy[0], &fake, "greedy");
    client_submit_plain(&greedy[1], &fake, "greedy");
    client_submit_plain(&other, &fake, "other");

    assert_int_equal(client_wait_end(&greedy[1])->refusal, RPC_RESOURCE_EXHAUSTED);
    assert_string_equal(sbx_execution_outcome(greedy[1].execution)->refusal_reason, "QUEUE_SHARE");
    assert_true(sbx_execution_outcome(greedy[1].execution)->retry_after_ms > 0);
    for (int i = 0; i < 3; i++) { /* everybody else runs */
        fake_finish(&fake, &run, SBX_VERDICT_OK);
        if (i < 2)
            fake_start(&fake, &run);
    }
    assert_int_equal(client_wait_end(&running)->refusal, RPC_OK);
    assert_int_equal(client_wait_end(&greedy[0])->refusal, RPC_OK);
    assert_int_equal(client_wait_end(&other)->refusal, RPC_OK);
    client_done(&running);
    client_done(&greedy[0]);
    client_done(&greedy[1]);
    client_done(&other);
    fake_close(&fake);
}

static void run_that_is_cancelled_while_it_waits_leaves_nothing(void **state)
{
    struct fake_client first;
    struct fake_client second;
    struct fake_run run;
    struct fake fake;

    (void)state;
    fake_open(&fake, 1, 1);
    client_submit_plain(&first, &fake, "a");
    fake_start(&fake, &run);
    client_submit_plain(&second, &fake, "a");
    sbx_execution_cancel(second.execution, false);

    assert_int_equal(client_wait_end(&second)->result.verdict, SBX_VERDICT_CANCELLED);
    assert_false(second.has_started);
    fake_finish(&fake, &run, SBX_VERDICT_OK);
    (void)client_wait_end(&first);
    assert_true(fake_is_silent(&fake)); /* it was never sent */
    client_done(&first);
    client_done(&second);
    fake_close(&fake);
}

/* Work that nobody waits for. */
static void submit_idle_work(struct fake_client *client, struct fake *fake)
{
    Crisol__Sandbox__V1__ExecuteRequest message;

    client_request(&message);
    client_prepare(client, &message, SBX_CALLER_SELF);
    sbx_execution_give_way(client->execution);
    sbx_execution_submit(client->execution, fake->backend);
}

static void idle_work_ends_when_a_caller_comes(void **state)
{
    struct fake_client idle;
    struct fake_client client;
    struct fake_run idle_run;
    struct fake_run run;
    struct fake fake;
    union sbx_msg msg;

    (void)state;
    fake_open(&fake, 2, 1);
    submit_idle_work(&idle, &fake);
    fake_start(&fake, &idle_run);
    client_submit_plain(&client, &fake, "a");

    fake_receive(&fake, SBX_MSG_CANCEL, &msg);
    assert_int_equal(msg.header.run, idle_run.number);
    fake_start(&fake, &run); /* beside it, in the other slot */
    fake_finish(&fake, &idle_run, SBX_VERDICT_CANCELLED);
    fake_finish(&fake, &run, SBX_VERDICT_OK);
    assert_int_equal(client_wait_end(&client)->result.verdict, SBX_VERDICT_OK);
    assert_int_equal(client_wait_end(&idle)->result.verdict, SBX_VERDICT_CANCELLED);
    client_done(&idle);
    client_done(&client);
    fake_close(&fake);
}

static void idle_work_does_not_begin_beside_a_caller(void **state)
{
    struct fake_client idle;
    struct fake_client client;
    struct fake_run run;
    struct fake fake;

    (void)state;
    fake_open(&fake, 2, 1);
    client_submit_plain(&client, &fake, "a");
    fake_start(&fake, &run);
    submit_idle_work(&idle, &fake);

    assert_string_equal(client_wait_end(&idle)->refusal_reason, "GIVES_WAY");
    assert_false(idle.has_started);
    fake_finish(&fake, &run, SBX_VERDICT_OK);
    assert_int_equal(client_wait_end(&client)->result.verdict, SBX_VERDICT_OK);
    client_done(&idle);
    client_done(&client);
    fake_close(&fake);
}

static void drain_lets_what_runs_finish_and_refuses_the_rest(void **state)
{
    struct fake_client running;
    struct fake_client waiting;
    struct fake_client late;
    struct fake_run run;
    struct fake fake;

    (void)state;
    fake_open(&fake, 1, 1);
    client_submit_plain(&running, &fake, "a");
    fake_start(&fake, &run);
    client_submit_plain(&waiting, &fake, "a");
    assert_true(fake_is_silent(&fake));
    sbx_backend_drain(fake.backend);

    assert_int_equal(client_wait_end(&waiting)->refusal, RPC_UNAVAILABLE);
    client_submit_plain(&late, &fake, "a");
    assert_string_equal(client_wait_end(&late)->refusal_reason, "DRAINING");
    fake_finish(&fake, &run, SBX_VERDICT_OK);
    assert_int_equal(client_wait_end(&running)->result.verdict, SBX_VERDICT_OK);
    client_done(&running);
    client_done(&waiting);
    client_done(&late);
    fake_close(&fake);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(run_waits_for_a_slot_and_says_how_long, fake_check_fds),
        cmocka_unit_test_teardown(run_waits_for_the_memory_that_it_was_promised, fake_check_fds),
        cmocka_unit_test_teardown(run_is_refused_when_the_queue_is_full, fake_check_fds),
        cmocka_unit_test_teardown(waiting_run_of_a_greedy_caller_makes_room_for_another_caller,
                                  fake_check_fds),
        cmocka_unit_test_teardown(run_that_is_cancelled_while_it_waits_leaves_nothing,
                                  fake_check_fds),
        cmocka_unit_test_teardown(idle_work_ends_when_a_caller_comes, fake_check_fds),
        cmocka_unit_test_teardown(idle_work_does_not_begin_beside_a_caller, fake_check_fds),
        cmocka_unit_test_teardown(drain_lets_what_runs_finish_and_refuses_the_rest, fake_check_fds),
    };

    fake_begin();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
