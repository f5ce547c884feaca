/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/unconst.h"
#include "rpc/status.h"
#include "sandboxd/front/policy.h"
#include "sandboxd/front/result.h"
#include "tests/harness/test.h"
#include "tests/integration/sandboxd/fake_backend.h"

#include <poll.h>
#include <string.h>
#include <unistd.h>

static void run_that_is_cancelled_is_killed_and_still_has_a_result(void **state)
{
    struct fake_client client;
    struct fake_run run;
    struct fake fake;
    union sbx_msg msg;

    (void)state;
    fake_open(&fake, 1, 1);
    client_submit_plain(&client, &fake, "a");
    fake_start(&fake, &run);
    fake_write(&run, 1, "before", 6, &client);
    client_wait_started(&client);
    sbx_execution_cancel(client.execution, false);
    sbx_execution_cancel(client.execution, false);

    fake_receive(&fake, SBX_MSG_CANCEL, &msg);
    assert_true(fake_is_silent(&fake)); /* once is enough */
    fake_finish(&fake, &run, SBX_VERDICT_CANCELLED);
    assert_int_equal(client_wait_end(&client)->result.verdict, SBX_VERDICT_CANCELLED);
    assert_string_equal(cr_buf_str(&client.outputs[0]), "before");
    client_done(&client);
    fake_close(&fake);
}

static void run_whose_caller_has_gone_is_killed_and_drained(void **state)
{
    static const uint8_t flood[4096];
    struct fake_client client;
    struct fake_client next;
    struct fake_run run;
    struct fake fake;
    union sbx_msg msg;

    (void)state;
    fake_open(&fake, 1, 1);
    client_submit_plain(&client, &fake, "a");
    fake_start(&fake, &run);
    client_wait_started(&client);
    while (write(run.fds[2], flood, sizeof(flood)) > 0) {
    } /* more than anybody has room for */
    sbx_execution_cancel(client.execution, true);
    fake_receive(&fake, SBX_MSG_CANCEL, &msg);
    fake_finish(&fake, &run, SBX_VERDICT_CANCELLED);

    client_submit_plain(&next, &fake, "a"); /* the slot is free again */
    fake_start(&fake, &run);
    fake_finish(&fake, &run, SBX_VERDICT_OK);
    assert_int_equal(client_wait_end(&next)->result.verdict, SBX_VERDICT_OK);
    client_done(&client);
    client_done(&next);
    fake_close(&fake);
}

/* A pipe whose other end is closed is reported unasked. */
static void run_that_ends_before_its_start_is_told_still_starts_first(void **state)
{
    struct fake_client client;
    struct fake_run run;
    struct fake fake;

    (void)state;
    fake_open(&fake, 1, 1);
    client_submit_plain(&client, &fake, "a");
    fake_take(&fake, &run);
    assert_int_equal(write(run.fds[2], "quick", 5), 5);
    for (size_t i = 1; i <= 3; i++)
        cr_close_fd(&run.fds[i]);
    assert_true(fake_is_silent(&fake));
    client_take(&client);
    assert_int_equal(client.chunks, 0);

    fake_say_started(&fake, &run);
    client_wait_started(&client);
    fake_finish(&fake, &run, SBX_VERDICT_OK);
    assert_int_equal(client_wait_end(&client)->result.verdict, SBX_VERDICT_OK);
    assert_string_equal(cr_buf_str(&client.outputs[0]), "quick");
    client_done(&client);
    fake_close(&fake);
}

static void run_is_lost_with_its_backend_and_the_next_one_finds_the_new(void **state)
{
    struct fake_client running;
    struct fake_client waiting;
    struct fake_client early;
    struct fake_client later;
    struct fake_run run;
    struct fake fake;

    (void)state;
    fake_open(&fake, 1, 1);
    client_submit_plain(&running, &fake, "a");
    fake_start(&fake, &run);
    client_wait_started(&running);
    assert_int_equal(write(run.fds[2], "half", 4), 4);
    client_submit_plain(&waiting, &fake, "a");
    assert_true(fake_is_silent(&fake));
    fake_close_fds(&run);
    cr_close_fd(&fake.wire_fd);

    assert_int_equal(client_wait_end(&running)->result.verdict, SBX_VERDICT_SANDBOX_LOST);
    assert_string_equal(cr_buf_str(&running.outputs[0]), "half"); /* what there was is delivered */
    assert_int_equal(client_wait_end(&waiting)->refusal, RPC_UNAVAILABLE);
    client_submit_plain(&early, &fake, "a");
    assert_int_equal(client_wait_end(&early)->refusal, RPC_UNAVAILABLE);
    assert_true(sbx_execution_outcome(early.execution)->retry_after_ms > 0);

    fake_reconnect(&fake, 1);
    client_submit_plain(&later, &fake, "a");
    fake_start(&fake, &run);
    fake_finish(&fake, &run, SBX_VERDICT_OK);
    assert_int_equal(client_wait_end(&later)->result.verdict, SBX_VERDICT_OK);
    client_done(&running);
    client_done(&waiting);
    client_done(&early);
    client_done(&later);
    fake_close(&fake);
}

static void run_that_could_not_be_set_up_has_a_result_at_once(void **state)
{
    struct fake_client client;
    struct fake_run run;
    struct fake fake;
    union sbx_msg msg;
    size_t fd_count;
    struct pollfd poll_fd;

    (void)state;
    fake_open(&fake, 1, 1);
    client_submit_plain(&client, &fake, "a");
    poll_fd = (struct pollfd){.fd = fake.wire_fd, .events = POLLIN};
    assert_int_equal(poll(&poll_fd, 1, 60000), 1);
    assert_int_equal(sbx_msg_receive(fake.wire_fd, &msg, run.fds, &fd_count, NULL), 0);
    run.number = msg.header.run;
    fake_close_fds(&run);
    sbx_msg_init(&msg, SBX_MSG_RESULT, run.number);
    msg.result.verdict = SBX_VERDICT_SANDBOX_ERROR;
    msg.result.stage = SBX_STAGE_MOUNT;
    msg.result.stage_errno = 1;
    fake_send(&fake, &msg);

    assert_int_equal(client_wait_end(&client)->result.verdict, SBX_VERDICT_SANDBOX_ERROR);
    assert_false(client.has_started);
    assert_false(sbx_execution_outcome(client.execution)->was_started);
    client_done(&client);
    fake_close(&fake);
}

static void backend_that_breaks_the_protocol_is_dropped(void **state)
{
    static const enum sbx_msg_type illegal[] = {SBX_MSG_STARTED, SBX_MSG_RESULT, SBX_MSG_HELLO,
                                                SBX_MSG_CANCEL};

    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(illegal); i++) {
        struct fake_client client;
        struct fake_run run;
        struct fake fake;
        union sbx_msg msg;

        fake_open(&fake, 1, 1);
        client_submit_plain(&client, &fake, "a");
        fake_start(&fake, &run);
        client_wait_started(&client);
        sbx_msg_init(&msg, illegal[i], run.number); /* RESULT without EXITED, STARTED twice … */
        if (illegal[i] == SBX_MSG_HELLO)
            fake_hello(&msg, 1);
        if (illegal[i] == SBX_MSG_RESULT)
            msg.result.verdict = SBX_VERDICT_OK;
        fake_send(&fake, &msg);
        assert_int_equal(client_wait_end(&client)->result.verdict, SBX_VERDICT_SANDBOX_LOST);
        fake_wait_up(&fake, false);
        fake_close_fds(&run);
        client_done(&client);
        fake_close(&fake);
    }
}

static void backend_of_another_build_is_not_used(void **state)
{
    struct fake_client client;
    struct fake fake;
    union sbx_msg msg;

    (void)state;
    fake_open(&fake, 0, 1);
    fake_hello(&msg, 1);
    msg.hello.runtime_digest++;
    fake_send(&fake, &msg);
    client_submit_plain(&client, &fake, "a");
    assert_int_equal(client_wait_end(&client)->refusal, RPC_UNAVAILABLE);
    client_done(&client);
    fake_close(&fake);
}

/* Writes one framed file as the collector does. */
static void write_file(struct fake_run *run, struct fake_client *client, uint32_t status,
                       const char *content)
{
    struct sbx_collect_header head = {status, (uint32_t)strlen(content), 0};

    fake_write(run, 3, &head, sizeof(head), client);
    fake_write(run, 3, content, strlen(content), client);
}

static void files_are_collected_and_a_missing_required_one_is_told(void **state)
{
    Crisol__Sandbox__V1__CollectSpec specs[2];
    Crisol__Sandbox__V1__CollectSpec *list[] = {&specs[0], &specs[1]};
    Crisol__Sandbox__V1__ExecuteRequest message;
    const struct sbx_collected *files;
    struct sbx_msg_drained drained;
    struct fake_client client;
    struct fake_run run;
    struct fake fake;
    size_t count;

    (void)state;
    fake_open(&fake, 1, 1);
    client_request(&message);
    crisol__sandbox__v1__collect_spec__init(&specs[0]);
    crisol__sandbox__v1__collect_spec__init(&specs[1]);
    specs[0].path = cr_unconst("out.txt");
    specs[1].path = cr_unconst("must.txt");
    specs[1].required = true;
    message.collect = list;
    message.n_collect = 2;
    client_submit(&client, &fake, &message, "a");
    fake_start(&fake, &run);
    write_file(&run, &client, 1, "content");
    write_file(&run, &client, 2, "");
    fake_exit(&fake, &run, &drained);

    assert_int_equal(drained.collect_failed, 1);
    fake_result(&fake, &run, SBX_VERDICT_COLLECT_FAILED);
    (void)client_wait_end(&client);
    files = sbx_execution_files(client.execution, &count);
    assert_int_equal(count, 2);
    assert_string_equal(files[0].path, "out.txt");
    assert_string_equal(cr_buf_str(&files[0].data), "content");
    assert_int_equal(files[1].status, 2);
    assert_null(sbx_execution_report(client.execution));
    client_done(&client);
    fake_close(&fake);
}

static void fill_result(union sbx_msg *msg, uint64_t run)
{
    sbx_msg_init(msg, SBX_MSG_RESULT, run);
    msg->result.verdict = SBX_VERDICT_MEMORY_LIMIT;
    msg->result.signal = 9;
    msg->result.has_hit = 1;
    msg->result.hit = (struct sbx_limit_hit){SBX_LIMIT_MEMORY, SBX_KILLED_BY_OOM_KILLER, 100, 101};
    msg->result.other_hit_count = 1;
    msg->result.other_hits[0] =
        (struct sbx_limit_hit){SBX_LIMIT_WALL_TIME, SBX_KILLED_BY_SANDBOXD, 10, 11};
    msg->result.cgroup_version = 2;
    msg->result.prepare_us = 1;
    msg->result.wall_us = 2;
    msg->result.kill_us = 3;
    msg->result.collect_us = 4;
    msg->result.cpu_total_us = 5;
    msg->result.cpu_throttled_us = 6;
    msg->result.memory_peak_bytes = 7;
    msg->result.oom_kills = 8;
    msg->result.killed_leftovers = 9;
}

static void assert_result(const Crisol__Sandbox__V1__ExecuteResult *message)
{
    assert_int_equal(message->verdict->code, SBX_VERDICT_MEMORY_LIMIT);
    assert_false(message->verdict->retryable);
    assert_int_equal(message->signal, 9);
    assert_string_equal(message->limit_hit->limit, "memory_bytes");
    assert_int_equal(message->limit_hit->observed, 101);
    assert_int_equal(message->limit_hit->killed_by, SBX_KILLED_BY_OOM_KILLER);
    assert_int_equal(message->n_other_limit_hits, 1);
    assert_string_equal(message->other_limit_hits[0]->limit, "wall_time_ms");
    assert_int_equal(message->timing->prepare_us, 1);
    assert_int_equal(message->timing->run_us, 2);
    assert_int_equal(message->timing->kill_us, 3);
    assert_int_equal(message->timing->collect_us, 4);
    assert_int_equal(message->usage->cpu_total_us, 5);
    assert_int_equal(message->usage->cpu_throttled_us, 6);
    assert_int_equal(message->usage->memory_peak_bytes, 7);
    assert_string_equal(message->usage->memory_source, "memory.peak");
    assert_int_equal(message->usage->oom_kills, 8);
    assert_int_equal(message->usage->killed_leftovers, 9);
    assert_int_equal(message->stdout_info->total_bytes, 3);
    assert_int_equal(message->stdout_info->delivered_bytes, 3);
    assert_null(message->test_report);
}

static void result_has_everything_that_the_backend_said(void **state)
{
    struct sbx_msg_hello hello;
    struct fake_client client;
    struct sbx_policy policy;
    struct sbx_result result;
    struct fake_run run;
    struct fake fake;
    union sbx_msg msg;

    (void)state;
    fake_open(&fake, 1, 1);
    client_submit_plain(&client, &fake, "a");
    fake_start(&fake, &run);
    fake_write(&run, 1, "abc", 3, &client);
    fake_exit(&fake, &run, NULL);
    fill_result(&msg, run.number);
    fake_send(&fake, &msg);
    (void)client_wait_end(&client);

    assert_true(sbx_backend_hello(fake.backend, &hello));
    sbx_policy_fill(&policy, sbx_execution_request(client.execution), &hello, NULL);
    assert_int_equal(sbx_result_fill(&result, client.execution, &policy), 0);
    assert_result(&result.message);
    assert_ptr_equal(result.message.policy, &policy.message);
    assert_string_equal(result.message.execution_id, sbx_execution_id(client.execution));
    assert_int_equal(strlen(result.message.execution_id), 32);
    sbx_result_done(&result);
    client_done(&client);
    fake_close(&fake);
}

static void many_runs_leave_no_descriptor_behind(void **state)
{
    struct fake fake;
    int fds;

    (void)state;
    fake_open(&fake, 2, 8);
    fds = test_count_fds();
    for (size_t i = 0; i < 200; i++) {
        struct fake_client client;
        struct fake_run run;

        client_submit_plain(&client, &fake, "a");
        fake_start(&fake, &run);
        fake_write(&run, 1 + i % 2, "x", 1, &client);
        fake_finish(&fake, &run, SBX_VERDICT_OK);
        (void)client_wait_end(&client);
        client_done(&client);
    }
    assert_int_equal(test_count_fds(), fds);
    fake_close(&fake);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(run_that_is_cancelled_is_killed_and_still_has_a_result,
                                  fake_check_fds),
        cmocka_unit_test_teardown(run_whose_caller_has_gone_is_killed_and_drained, fake_check_fds),
        cmocka_unit_test_teardown(run_that_ends_before_its_start_is_told_still_starts_first,
                                  fake_check_fds),
        cmocka_unit_test_teardown(run_is_lost_with_its_backend_and_the_next_one_finds_the_new,
                                  fake_check_fds),
        cmocka_unit_test_teardown(run_that_could_not_be_set_up_has_a_result_at_once,
                                  fake_check_fds),
        cmocka_unit_test_teardown(backend_that_breaks_the_protocol_is_dropped, fake_check_fds),
        cmocka_unit_test_teardown(backend_of_another_build_is_not_used, fake_check_fds),
        cmocka_unit_test_teardown(files_are_collected_and_a_missing_required_one_is_told,
                                  fake_check_fds),
        cmocka_unit_test_teardown(result_has_everything_that_the_backend_said, fake_check_fds),
        cmocka_unit_test_teardown(many_runs_leave_no_descriptor_behind, fake_check_fds),
    };

    fake_begin();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
