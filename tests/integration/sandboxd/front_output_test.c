/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "sandboxd/front/run.h"
#include "tests/harness/test.h"
#include "tests/integration/sandboxd/fake_backend.h"

#include <poll.h>
#include <string.h>
#include <unistd.h>

#define CAP 70000U

static void fill(uint8_t *data, size_t size)
{
    for (size_t i = 0; i < size; i++)
        data[i] = (uint8_t)(i + i / 256);
}

/* A request with an output cap and a policy. */
struct request {
    Crisol__Sandbox__V1__ExecuteRequest message;
    Crisol__Sandbox__V1__Limits limits;
    Crisol__Sandbox__V1__OutputOptions output;
};

static void prepare(struct request *request, uint64_t cap,
                    Crisol__Sandbox__V1__OverflowPolicy policy)
{
    client_request(&request->message);
    crisol__sandbox__v1__limits__init(&request->limits);
    crisol__sandbox__v1__output_options__init(&request->output);
    request->limits.output_bytes = cap;
    request->output.on_overflow = policy;
    request->message.limits = &request->limits;
    request->message.output = &request->output;
}

#define POLICY(name) CRISOL__SANDBOX__V1__OVERFLOW_POLICY__OVERFLOW_POLICY_##name

static void output_of_every_size_up_to_the_cap_is_exact(void **state)
{
    static const size_t sizes[] = {0, 1, 255, CAP - 1, CAP};
    static uint8_t data[CAP];
    struct fake fake;

    (void)state;
    fill(data, sizeof(data));
    fake_open(&fake, 1, 1);
    for (size_t i = 0; i < CR_ARRAY_SIZE(sizes); i++) {
        uint32_t stream = 1 + (uint32_t)(i % 2);
        struct fake_client client;
        struct request request;
        struct fake_run run;

        prepare(&request, CAP, POLICY(KILL));
        client_submit(&client, &fake, &request.message, "a");
        fake_start(&fake, &run);
        fake_write(&run, stream, data, sizes[i], &client);
        fake_finish(&fake, &run, SBX_VERDICT_OK);

        assert_int_equal(client_wait_end(&client)->result.verdict, SBX_VERDICT_OK);
        assert_int_equal(client.outputs[stream - 1].size, sizes[i]);
        if (sizes[i] > 0)
            assert_memory_equal(client.outputs[stream - 1].data, data, sizes[i]);
        assert_int_equal(client.outputs[2 - stream].size, 0);
        assert_int_equal(client.dropped[0] + client.dropped[1], 0);
        client_done(&client);
    }
    fake_close(&fake);
}

static void output_over_the_cap_is_told_to_the_backend(void **state)
{
    static uint8_t data[CAP + 1];
    struct fake_client client;
    struct request request;
    struct fake_run run;
    struct fake fake;
    union sbx_msg msg;

    (void)state;
    fill(data, sizeof(data));
    fake_open(&fake, 1, 1);
    prepare(&request, CAP, POLICY(KILL));
    client_submit(&client, &fake, &request.message, "a");
    fake_start(&fake, &run);
    client_wait_started(&client);
    fake_write(&run, 2, data, sizeof(data), &client);

    fake_receive(&fake, SBX_MSG_OUTPUT_LIMIT, &msg);
    assert_int_equal(msg.output_limit.stream, 2);
    assert_int_equal(msg.output_limit.observed, CAP + 1);
    fake_exit(&fake, &run, NULL);
    fake_result(&fake, &run, SBX_VERDICT_OUTPUT_LIMIT);
    (void)client_wait_end(&client);
    assert_int_equal(client.outputs[1].size, CAP);
    assert_memory_equal(client.outputs[1].data, data, CAP);
    assert_int_equal(client.dropped[1], 1);
    client_done(&client);
    fake_close(&fake);
}

static void output_over_the_cap_at_the_very_end_is_told_with_drained(void **state)
{
    struct sbx_msg_drained drained;
    struct fake_client client;
    struct request request;
    struct fake_run run;
    struct fake fake;
    union sbx_msg msg;

    (void)state;
    fake_open(&fake, 1, 1);
    prepare(&request, 4, POLICY(KILL));
    client_submit(&client, &fake, &request.message, "a");
    fake_start(&fake, &run);
    client_wait_started(&client);
    /* All of it lies in the pipe when EXITED comes, or OUTPUT_LIMIT crosses it on the way. */
    assert_int_equal(write(run.fds[2], "hello", 5), 5);
    fake_close_fds(&run);
    sbx_msg_init(&msg, SBX_MSG_EXITED, run.number);
    fake_send(&fake, &msg);
    fake_early_result(&fake, &run, SBX_VERDICT_OK); /* it does not hold */
    do {
        int fds[SBX_RUN_FDS];
        size_t fd_count;
        struct pollfd poll_fd = {.fd = fake.wire_fd, .events = POLLIN};

        assert_int_equal(poll(&poll_fd, 1, 60000), 1);
        assert_int_equal(sbx_msg_receive(fake.wire_fd, &msg, fds, &fd_count, NULL), 0);
    } while (msg.header.type == SBX_MSG_OUTPUT_LIMIT);
    assert_int_equal(msg.header.type, SBX_MSG_DRAINED);
    drained = msg.drained;
    assert_int_equal(drained.overflow_stream, 1);
    assert_int_equal(drained.observed, 5);
    fake_result(&fake, &run, SBX_VERDICT_OUTPUT_LIMIT);
    (void)client_wait_end(&client);
    assert_string_equal(cr_buf_str(&client.outputs[0]), "hell");
    client_done(&client);
    fake_close(&fake);
}

static void output_over_the_cap_goes_on_under_the_other_policies(void **state)
{
    static uint8_t data[5 * CAP];
    struct fake fake;

    (void)state;
    fill(data, sizeof(data));
    fake_open(&fake, 1, 1);
    for (int i = 0; i < 2; i++) {
        bool is_tail = i == 1;
        struct sbx_msg_drained drained;
        struct fake_client client;
        struct request request;
        struct fake_run run;

        prepare(&request, CAP, is_tail ? POLICY(HEAD_TAIL) : POLICY(TRUNCATE));
        client_submit(&client, &fake, &request.message, "a");
        fake_start(&fake, &run);
        fake_write(&run, 1, data, sizeof(data), &client);
        fake_exit(&fake, &run, &drained);
        assert_int_equal(drained.overflow_stream, 0);
        fake_result(&fake, &run, SBX_VERDICT_OK);

        (void)client_wait_end(&client);
        assert_int_equal(client.outputs[0].size, CAP);
        assert_memory_equal(client.outputs[0].data, data, CAP / 2);
        assert_memory_equal(client.outputs[0].data + CAP / 2,
                            is_tail ? data + sizeof(data) - CAP / 2 : data + CAP / 2, CAP / 2);
        assert_int_equal(client.dropped[0], 4 * CAP);
        assert_int_equal(sbx_execution_output(client.execution, 1)->total, sizeof(data));
        client_done(&client);
    }
    fake_close(&fake);
}

static void output_as_text_keeps_characters_whole_at_every_border(void **state)
{
    static uint8_t data[3 * 50000];
    struct fake_client client;
    struct request request;
    struct fake_run run;
    struct fake fake;

    (void)state;
    for (size_t i = 0; i < sizeof(data); i++)
        data[i] = (uint8_t) "\xe2\x82\xac"[i % 3];
    fake_open(&fake, 1, 1);
    prepare(&request, sizeof(data), POLICY(KILL));
    request.message.output_text = true;
    client_submit(&client, &fake, &request.message, "a");
    fake_start(&fake, &run);
    for (size_t i = 0; i < 10; i++) /* one byte at a time: a border in every place */
        fake_write(&run, 1, data + i, 1, &client);
    fake_write(&run, 1, data + 10, sizeof(data) - 10, &client);
    fake_finish(&fake, &run, SBX_VERDICT_OK);

    (void)client_wait_end(&client); /* the client checks each chunk */
    assert_int_equal(client.outputs[0].size, sizeof(data));
    assert_memory_equal(client.outputs[0].data, data, sizeof(data));
    client_done(&client);
    fake_close(&fake);
}

/* Writes until the pipe takes no more for a while. */
static size_t write_until_blocked(int fd)
{
    static const uint8_t block[4096];
    size_t total = 0;
    int idle = 0;

    while (idle < 20) {
        ssize_t n = write(fd, block, sizeof(block));

        if (n > 0) {
            total += (size_t)n;
            idle = 0;
        } else {
            idle++;
            (void)poll(NULL, 0, 5);
        }
        assert_true(total < (64U << 20));
    }
    return total;
}

static void output_that_nobody_takes_stops_the_program_not_the_memory(void **state)
{
    struct fake_client client;
    struct request request;
    struct fake_run run;
    struct fake fake;
    size_t written;

    (void)state;
    fake_open(&fake, 1, 1);
    prepare(&request, 8U << 20, POLICY(KILL));
    client_submit(&client, &fake, &request.message, "slow");
    fake_start(&fake, &run);
    client_wait_started(&client);

    written = write_until_blocked(run.fds[2]);
    /* One chunk taken up by the front, one full pipe behind it. */
    assert_true(written <= SBX_CHUNK_MAX + (128U << 10));
    fake_exit(&fake, &run, NULL); /* the slot does not wait for the slow reader */
    fake_result(&fake, &run, SBX_VERDICT_WALL_TIME_LIMIT);
    assert_int_equal(client.outputs[0].size, 0);
    assert_int_equal(client_wait_end(&client)->result.verdict, SBX_VERDICT_WALL_TIME_LIMIT);
    assert_int_equal(client.outputs[0].size, written);
    client_done(&client);
    fake_close(&fake);
}

static void stdin_is_fed_as_the_program_reads_it(void **state)
{
    static uint8_t input[600000];
    static uint8_t seen[sizeof(input) + 1];
    struct fake_client client;
    struct request request;
    struct fake_run run;
    struct fake fake;
    size_t size = 0;

    (void)state;
    fill(input, sizeof(input));
    fake_open(&fake, 1, 1);
    prepare(&request, CAP, POLICY(KILL));
    request.message.stdin_data = (ProtobufCBinaryData){.len = sizeof(input), .data = input};
    client_submit(&client, &fake, &request.message, "a");
    fake_start(&fake, &run);
    for (;;) {
        ssize_t n = read(run.fds[1], seen + size, sizeof(seen) - size);

        assert_true(n >= 0);
        if (n == 0)
            break;
        size += (size_t)n;
    }
    assert_int_equal(size, sizeof(input));
    assert_memory_equal(seen, input, sizeof(input));
    fake_finish(&fake, &run, SBX_VERDICT_OK);
    (void)client_wait_end(&client);
    client_done(&client);
    fake_close(&fake);
}

static void stdin_that_is_not_read_hurts_nobody(void **state)
{
    static uint8_t input[600000];
    struct fake_client client;
    struct request request;
    struct fake_run run;
    struct fake fake;

    (void)state;
    fake_open(&fake, 1, 1);
    prepare(&request, CAP, POLICY(KILL));
    request.message.stdin_data = (ProtobufCBinaryData){.len = sizeof(input), .data = input};
    client_submit(&client, &fake, &request.message, "a");
    fake_start(&fake, &run);
    cr_close_fd(&run.fds[1]);
    fake_write(&run, 1, "fine", 4, &client);
    fake_finish(&fake, &run, SBX_VERDICT_OK);
    (void)client_wait_end(&client);
    assert_string_equal(cr_buf_str(&client.outputs[0]), "fine");
    client_done(&client);
    fake_close(&fake);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(output_of_every_size_up_to_the_cap_is_exact, fake_check_fds),
        cmocka_unit_test_teardown(output_over_the_cap_is_told_to_the_backend, fake_check_fds),
        cmocka_unit_test_teardown(output_over_the_cap_at_the_very_end_is_told_with_drained,
                                  fake_check_fds),
        cmocka_unit_test_teardown(output_over_the_cap_goes_on_under_the_other_policies,
                                  fake_check_fds),
        cmocka_unit_test_teardown(output_as_text_keeps_characters_whole_at_every_border,
                                  fake_check_fds),
        cmocka_unit_test_teardown(output_that_nobody_takes_stops_the_program_not_the_memory,
                                  fake_check_fds),
        cmocka_unit_test_teardown(stdin_is_fed_as_the_program_reads_it, fake_check_fds),
        cmocka_unit_test_teardown(stdin_that_is_not_read_hurts_nobody, fake_check_fds),
    };

    fake_begin();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
