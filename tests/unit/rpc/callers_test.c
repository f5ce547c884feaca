/* SPDX-License-Identifier: Apache-2.0 */
#include "common/clock.h"
#include "rpc/callers.h"
#include "rpc/status.h"
#include "tests/harness/test.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define NOW (1000 * CR_NS_PER_S)

static int enter(struct rpc_callers *callers, const char *caller, int64_t now_ns,
                 struct rpc_status *status)
{
    *status = (struct rpc_status)RPC_STATUS_INIT;
    return rpc_callers_enter(callers, caller, "runs", now_ns, status);
}

static void callers_may_have_so_many_at_one_time(void **state)
{
    const struct rpc_callers_limits limits = {.max_live = 2};
    struct rpc_callers *callers = rpc_callers_new(&limits);
    struct rpc_status status;

    (void)state;
    assert_int_equal(enter(callers, "uid:1", NOW, &status), 0);
    assert_int_equal(enter(callers, "uid:1", NOW, &status), 0);
    assert_int_equal(enter(callers, "uid:1", NOW, &status), -EAGAIN);
    assert_int_equal(status.code, RPC_RESOURCE_EXHAUSTED);
    assert_string_equal(status.reason, "CALLER_LIVE_LIMIT");
    assert_true(status.retry_after_ms > 0);
    assert_non_null(strstr(status.message, "2 runs"));
    assert_int_equal(enter(callers, "uid:2", NOW, &status), 0);
    rpc_callers_leave(callers, "uid:1");
    assert_int_equal(enter(callers, "uid:1", NOW, &status), 0);
    (void)rpc_callers_free(callers);
}

static void callers_may_begin_so_many_in_a_minute(void **state)
{
    const struct rpc_callers_limits limits = {.per_minute = 60};
    struct rpc_callers *callers = rpc_callers_new(&limits);
    struct rpc_status status;

    (void)state;
    for (int i = 0; i < 60; i++) {
        assert_int_equal(enter(callers, "token:ci", NOW, &status), 0);
        rpc_callers_leave(callers, "token:ci");
    }
    assert_int_equal(enter(callers, "token:ci", NOW, &status), -EAGAIN);
    assert_string_equal(status.reason, "CALLER_RATE_LIMIT");
    assert_in_range(status.retry_after_ms, 900, 1001);
    assert_int_equal(enter(callers, "token:web", NOW, &status), 0);
    assert_int_equal(enter(callers, "token:ci", NOW + CR_NS_PER_S, &status), 0);
    assert_int_equal(enter(callers, "token:ci", NOW + CR_NS_PER_S, &status), -EAGAIN);
    (void)rpc_callers_free(callers);
}

/* What is refused is not counted: else one who knocks on would never be let in. */
static void callers_that_are_refused_lose_nothing(void **state)
{
    const struct rpc_callers_limits limits = {.max_live = 1, .per_minute = 2};
    struct rpc_callers *callers = rpc_callers_new(&limits);
    struct rpc_status status;

    (void)state;
    assert_int_equal(enter(callers, "a", NOW, &status), 0);
    for (int i = 0; i < 10; i++)
        assert_int_equal(enter(callers, "a", NOW, &status), -EAGAIN);
    rpc_callers_leave(callers, "a");
    assert_int_equal(enter(callers, "a", NOW, &status), 0);
    (void)rpc_callers_free(callers);
}

static void callers_are_forgotten_when_nothing_is_left_to_know(void **state)
{
    const struct rpc_callers_limits limits = {.per_minute = 600};
    struct rpc_callers *callers = rpc_callers_new(&limits);
    struct rpc_status status;
    char name[32];
    int refused = 0;

    (void)state;
    for (int i = 0; i < 8193; i++) {
        (void)snprintf(name, sizeof(name), "ip:%d", i);
        refused += enter(callers, name, NOW, &status) < 0;
        rpc_callers_leave(callers, name);
    }
    assert_int_equal(refused, 1);
    assert_string_equal(status.reason, "TOO_MANY_CALLERS");
    assert_int_equal(enter(callers, "ip:new", NOW + CR_NS_PER_S, &status), 0);
    rpc_callers_leave(callers, "nobody");
    (void)rpc_callers_free(callers);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(callers_may_have_so_many_at_one_time),
        cmocka_unit_test(callers_may_begin_so_many_in_a_minute),
        cmocka_unit_test(callers_that_are_refused_lose_nothing),
        cmocka_unit_test(callers_are_forgotten_when_nothing_is_left_to_know),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
