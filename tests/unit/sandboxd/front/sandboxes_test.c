/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/status.h"
#include "sandboxd/front/sandboxes.h"
#include "sandboxd/runtimes/table.h"
#include "tests/harness/test.h"

#include <errno.h>
#include <string.h>

/* What a backend was sent. */
struct wire {
    union sbx_msg sent[8];
    size_t count;
    int answer;
};

static int send_to(void *user, const union sbx_msg *msg)
{
    struct wire *wire = user;

    if (wire->answer == 0)
        wire->sent[wire->count++] = *msg;
    return wire->answer;
}

static int make_list(void **state)
{
    static struct sbx_sandboxes list;

    *state = &list;
    return sbx_sandboxes_init(&list, 2, NULL);
}

static int drop_list(void **state)
{
    sbx_sandboxes_done(*state);
    return 0;
}

static struct sbx_msg_hello hello_of(uint8_t sessions)
{
    return (struct sbx_msg_hello){.sessions = sessions};
}

static int create(struct sbx_sandboxes *list, const char *caller, struct sbx_sandbox_info *info,
                  struct rpc_status *status)
{
    const struct sbx_sandbox_plan plan = {
        .caller = caller, .limits = sbx_default_limits, .idle_ms = 60000, .life_ms = 90000};
    const struct sbx_msg_hello hello = hello_of(3);

    *status = (struct rpc_status)RPC_STATUS_INIT;
    return sbx_sandboxes_create(list, &plan, &hello, info, status);
}

static void assert_refused(const struct rpc_status *status, enum rpc_code code, const char *reason)
{
    assert_int_equal(status->code, code);
    assert_string_equal(status->reason, reason);
}

static void a_sandbox_is_its_callers_alone(void **state)
{
    struct sbx_sandboxes *list = *state;
    struct rpc_status status;
    struct sbx_sandbox_info info;
    struct sbx_sandbox_info found[4];
    struct sbx_sandbox *sandbox;

    assert_int_equal(create(list, "a", &info, &status), 0);

    assert_null(sbx_sandboxes_enter(list, "b", info.id, &status));
    assert_refused(&status, RPC_NOT_FOUND, "SANDBOX_NOT_FOUND");
    assert_false(sbx_sandboxes_delete(list, "b", info.id));
    assert_int_equal(sbx_sandboxes_list(list, "b", found, 4), 0);
    assert_int_equal(sbx_sandboxes_list(list, "a", found, 4), 1);
    sandbox = sbx_sandboxes_enter(list, "a", info.id, &status);
    assert_non_null(sandbox);
    (void)sbx_sandbox_leave(sandbox);
}

static void one_call_at_a_time_is_let_in(void **state)
{
    struct sbx_sandboxes *list = *state;
    struct rpc_status status;
    struct sbx_sandbox_info info;
    struct sbx_sandbox *sandbox;

    assert_int_equal(create(list, "a", &info, &status), 0);
    sandbox = sbx_sandboxes_enter(list, "a", info.id, &status);
    assert_non_null(sandbox);

    assert_null(sbx_sandboxes_enter(list, "a", info.id, &status));
    assert_refused(&status, RPC_ABORTED, "SANDBOX_BUSY");
    assert_int_equal(status.retry_after_ms > 0, 1);
    (void)sbx_sandbox_leave(sandbox);
    sandbox = sbx_sandboxes_enter(list, "a", info.id, &status);
    assert_non_null(sandbox);
    (void)sbx_sandbox_leave(sandbox);
}

static void the_number_of_each_and_of_all_is_bounded(void **state)
{
    struct sbx_sandboxes *list = *state;
    struct rpc_status status;
    struct sbx_sandbox_info info;

    assert_int_equal(create(list, "a", &info, &status), 0);
    assert_int_equal(create(list, "a", &info, &status), 0);

    assert_int_equal(create(list, "a", &info, &status), -EINVAL);
    assert_refused(&status, RPC_RESOURCE_EXHAUSTED, "SANDBOX_QUOTA");
    assert_int_equal(create(list, "b", &info, &status), 0);
    assert_int_equal(create(list, "b", &info, &status), -EINVAL);
    assert_refused(&status, RPC_RESOURCE_EXHAUSTED, "SANDBOXES_FULL");
}

static void the_memory_of_all_is_bounded(void **state)
{
    const struct sbx_sandbox_plan plan = {
        .caller = "a", .limits = sbx_default_limits, .idle_ms = 1, .life_ms = 1};
    struct sbx_msg_hello hello = hello_of(3);
    struct rpc_status status = RPC_STATUS_INIT;
    struct sbx_sandbox_info info;

    hello.memory_bytes = 2 * sbx_default_limits.value[SBX_LIMIT_WORKSPACE_BYTES];
    assert_int_equal(sbx_sandboxes_create(*state, &plan, &hello, &info, &status), 0);

    assert_int_equal(sbx_sandboxes_create(*state, &plan, &hello, &info, &status), -EINVAL);
    assert_refused(&status, RPC_RESOURCE_EXHAUSTED, "SANDBOX_MEMORY");
    assert_int_equal(sbx_sandboxes_memory(*state),
                     sbx_default_limits.value[SBX_LIMIT_WORKSPACE_BYTES]);
}

static void the_backend_is_told_once_and_in_order(void **state)
{
    struct sbx_sandboxes *list = *state;
    struct wire wire = {.answer = -EAGAIN};
    struct rpc_status status;
    struct sbx_sandbox_info info;

    assert_int_equal(create(list, "a", &info, &status), 0);
    assert_true(sbx_sandboxes_delete(list, "a", info.id));
    assert_int_equal(sbx_sandboxes_flush(list, send_to, &wire), -EAGAIN);
    wire.answer = 0;

    assert_int_equal(sbx_sandboxes_flush(list, send_to, &wire), 0);
    assert_int_equal(sbx_sandboxes_flush(list, send_to, &wire), 0);

    assert_int_equal(wire.count, 2);
    assert_int_equal(wire.sent[0].header.type, SBX_MSG_OPEN);
    assert_int_equal(wire.sent[0].open.life_ms, 90000);
    assert_int_equal(wire.sent[1].header.type, SBX_MSG_CLOSE);
    assert_true(wire.sent[0].header.run == wire.sent[1].header.run);
    assert_true((wire.sent[0].header.run & SBX_SANDBOX_NUMBER_BIT) != 0);
}

static void its_end_is_said_by_its_reason(void **state)
{
    static const struct {
        uint32_t reason;
        const char *expected;
    } cases[] = {
        {SBX_CLOSED_IDLE, "SANDBOX_IDLE"},
        {SBX_CLOSED_LIFE, "SANDBOX_EXPIRED"},
        {SBX_CLOSED_FAILED, "SANDBOX_FAILED"},
    };
    struct sbx_sandboxes *list = *state;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct wire wire = {.answer = 0};
        struct rpc_status status;
        struct sbx_sandbox_info info;

        assert_int_equal(create(list, "a", &info, &status), 0);
        assert_int_equal(sbx_sandboxes_flush(list, send_to, &wire), 0);
        assert_int_equal(sbx_sandboxes_closed(list, wire.sent[0].header.run, cases[i].reason), 0);
        assert_null(sbx_sandboxes_enter(list, "a", info.id, &status));
        assert_refused(&status, RPC_NOT_FOUND, cases[i].expected);
        /* To anybody else it never was. */
        assert_null(sbx_sandboxes_enter(list, "b", info.id, &status));
        assert_refused(&status, RPC_NOT_FOUND, "SANDBOX_NOT_FOUND");
    }
    assert_int_equal(sbx_sandboxes_closed(list, SBX_SANDBOX_NUMBER_BIT | 99, SBX_CLOSED_IDLE),
                     -EPROTO);
}

static void a_lost_backend_takes_all_of_them(void **state)
{
    struct sbx_sandboxes *list = *state;
    struct rpc_status status;
    struct sbx_sandbox_info info;
    struct sbx_sandbox_info deleted;

    assert_int_equal(create(list, "a", &info, &status), 0);
    assert_int_equal(create(list, "a", &deleted, &status), 0);
    assert_true(sbx_sandboxes_delete(list, "a", deleted.id));

    sbx_sandboxes_lose(list);

    assert_null(sbx_sandboxes_enter(list, "a", info.id, &status));
    assert_refused(&status, RPC_NOT_FOUND, "SANDBOX_LOST");
    assert_null(sbx_sandboxes_enter(list, "a", deleted.id, &status));
    assert_refused(&status, RPC_NOT_FOUND, "SANDBOX_DELETED");
    assert_int_equal(sbx_sandboxes_memory(list), 0);
}

static void an_id_of_another_start_is_lost(void **state)
{
    struct rpc_status status = RPC_STATUS_INIT;

    assert_null(sbx_sandboxes_enter(*state, "a", "zzzzzzzz000000000000000000000000", &status));
    assert_refused(&status, RPC_NOT_FOUND, "SANDBOX_LOST");
    assert_null(sbx_sandboxes_enter(*state, "a", "nonsense", &status));
    assert_refused(&status, RPC_NOT_FOUND, "SANDBOX_NOT_FOUND");
}

#define LIST_TEST(function) cmocka_unit_test_setup_teardown(function, make_list, drop_list)

int main(void)
{
    const struct CMUnitTest tests[] = {
        LIST_TEST(a_sandbox_is_its_callers_alone),
        LIST_TEST(one_call_at_a_time_is_let_in),
        LIST_TEST(the_number_of_each_and_of_all_is_bounded),
        LIST_TEST(the_memory_of_all_is_bounded),
        LIST_TEST(the_backend_is_told_once_and_in_order),
        LIST_TEST(its_end_is_said_by_its_reason),
        LIST_TEST(a_lost_backend_takes_all_of_them),
        LIST_TEST(an_id_of_another_start_is_lost),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
