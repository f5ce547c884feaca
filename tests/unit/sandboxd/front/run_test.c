/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/clock.h"
#include "common/unconst.h"
#include "sandboxd/front/run.h"
#include "sandboxd/runtimes/table.h"
#include "tests/harness/test.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include <sys/epoll.h>

/* Row: from, column: to, in the order of the enum. */
static const char *const moves[SBX_RUN_STATE_COUNT] = {
    [SBX_RUN_NEW] = ".xx...x",     [SBX_RUN_QUEUED] = "..x...x",   [SBX_RUN_STARTING] = "...xx.x",
    [SBX_RUN_RUNNING] = "....x.x", [SBX_RUN_DRAINING] = ".....xx", [SBX_RUN_DRAINED] = "......x",
    [SBX_RUN_ENDED] = ".......",
};

static void run_moves_only_forward_and_never_from_its_end(void **state)
{
    (void)state;
    for (int from = 0; from < SBX_RUN_STATE_COUNT; from++) {
        assert_int_equal(strlen(moves[from]), SBX_RUN_STATE_COUNT);
        for (int to = 0; to < SBX_RUN_STATE_COUNT; to++)
            assert_int_equal(sbx_run_state_check((enum sbx_run_state)from, (enum sbx_run_state)to),
                             moves[from][to] == 'x' ? 0 : -EPROTO);
    }
}

static struct {
    struct sbx_run_host host;
    uint8_t scratch[SBX_CHUNK_MAX];
    int stdout_fd; /* the program's */
    int wakes;
} fake;

static void count_wake(void *user)
{
    (void)user;
    fake.wakes++;
}

/* Keeps the program's end of standard output, as a box would. */
static int take_message(void *user, const union sbx_msg *msg, const int *fds, size_t fd_count)
{
    (void)user;
    (void)msg;
    if (fd_count == SBX_RUN_FDS)
        fake.stdout_fd = fcntl(fds[2], F_DUPFD_CLOEXEC, 0);
    return 0;
}

static void note_end(void *user, struct sbx_execution *execution)
{
    (void)user;
    (void)execution;
}

static struct sbx_execution *begin(void)
{
    const struct sbx_request_rules rules = {
        .maximum = sbx_maximum_limits,
        .runtimes = UINT32_MAX,
        .backend = CRISOL__SANDBOX__V1__BACKEND__BACKEND_NATIVE,
    };
    const struct sbx_waker waker = {.wake = count_wake};
    Crisol__Sandbox__V1__ExecuteRequest message = CRISOL__SANDBOX__V1__EXECUTE_REQUEST__INIT;
    struct rpc_status status = RPC_STATUS_INIT;
    struct sbx_execution *execution = NULL;
    struct sbx_request request;

    fake.wakes = 0;
    fake.host = (struct sbx_run_host){.epoll_fd = epoll_create1(EPOLL_CLOEXEC),
                                      .null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC),
                                      .scratch = fake.scratch,
                                      .send = take_message,
                                      .ended = note_end};
    message.runtime = cr_unconst("shell");
    message.code = cr_unconst("true");
    assert_int_equal(sbx_request_check(&message, &rules, &request, &status), 0);
    assert_int_equal(sbx_execution_new(&message, &request, "a", &waker, &execution, NULL), 0);
    execution->host = &fake.host;
    sbx_run_start(execution, 1);
    return execution;
}

static void tell(struct sbx_execution *execution, enum sbx_msg_type type)
{
    union sbx_msg msg;

    sbx_msg_init(&msg, type, 1);
    if (type == SBX_MSG_RESULT)
        msg.result.is_early = 1;
    assert_int_equal(sbx_run_message(execution, &msg), 0);
}

static void end(struct sbx_execution *execution)
{
    execution = sbx_execution_unref(execution);
    cr_close_fd(&fake.stdout_fd);
    cr_close_fd(&fake.host.null_fd);
    cr_close_fd(&fake.host.epoll_fd);
}

static void the_owner_of_a_short_run_is_woken_once(void **state)
{
    int fds = test_count_fds();
    struct sbx_execution *execution = begin();

    (void)state;
    tell(execution, SBX_MSG_STARTED);
    assert_int_equal(fake.wakes, 0);
    cr_close_fd(&fake.stdout_fd);
    tell(execution, SBX_MSG_EXITED);
    assert_int_equal(fake.wakes, 0);
    tell(execution, SBX_MSG_RESULT);
    assert_int_equal(fake.wakes, 1);
    assert_int_equal(sbx_run_next_ns(execution), INT64_MAX);
    end(execution);
    assert_int_equal(test_count_fds(), fds);
}

static void the_owner_of_a_run_that_takes_long_hears_of_its_start(void **state)
{
    int64_t before_ns = cr_clock_mono_ns();
    struct sbx_execution *execution = begin();
    int64_t tell_ns;

    (void)state;
    assert_int_equal(sbx_run_next_ns(execution), INT64_MAX);
    tell(execution, SBX_MSG_STARTED);
    tell_ns = sbx_run_next_ns(execution);
    assert_in_range(tell_ns, before_ns, cr_clock_mono_ns() + 2 * CR_NS_PER_MS);
    sbx_run_on_time(execution, tell_ns - 1);
    assert_int_equal(fake.wakes, 0);
    sbx_run_on_time(execution, tell_ns);
    assert_int_equal(fake.wakes, 1);
    assert_int_equal(sbx_run_next_ns(execution), INT64_MAX);
    end(execution);
}

static void output_is_told_at_once(void **state)
{
    struct sbx_execution *execution = begin();

    (void)state;
    tell(execution, SBX_MSG_STARTED);
    assert_int_equal(write(fake.stdout_fd, "x", 1), 1);
    sbx_run_ready(execution, SBX_SOURCE_STDOUT);

    assert_int_equal(fake.wakes, 1);
    assert_int_equal(sbx_run_next_ns(execution), INT64_MAX);
    end(execution);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(run_moves_only_forward_and_never_from_its_end),
        cmocka_unit_test(the_owner_of_a_short_run_is_woken_once),
        cmocka_unit_test(the_owner_of_a_run_that_takes_long_hears_of_its_start),
        cmocka_unit_test(output_is_told_at_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
