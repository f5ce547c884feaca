/* SPDX-License-Identifier: Apache-2.0 */

/* Our own allocations fail, one after the other; those of core abort and are not ours to test. */
#include "rpc/status.h"
#include "tests/harness/alloc.h"
#include "tests/harness/rpc_group.h"
#include "tests/integration/rpc/fixture.h"

#include <errno.h>

static void a_server_is_made_or_not_at_all(void **state)
{
    /* Few symbols, so that the loop stays short. */
    static const uint8_t set[] = "\x0A\x08\x0A\x01"
                                 "f\x22\x03\x0A\x01"
                                 "m";
    const struct rpc_method *const tables[] = {test_service_methods};
    const struct rpc_server_options options = {.descriptor_set = set,
                                               .descriptor_set_size = sizeof(set) - 1};
    int n = 0;
    int r;

    (void)state;
    do {
        struct rpc_server *server = NULL;

        test_fail_alloc(n++);
        r = rpc_server_new(tables, 1, &options, &server, NULL);
        assert_true(r == 0 || r == -ENOMEM);
        assert_int_equal(r == 0, server != NULL);
        (void)rpc_server_free(server);
    } while (test_stop_alloc());
    assert_int_equal(r, 0);
    assert_true(n > 8);
}

static void a_channel_is_made_or_not_at_all(void **state)
{
    const struct rpc_channel_options options = {.target = "unix:/nowhere", .token = "t"};
    int n = 0;
    int r;

    (void)state;
    do {
        struct rpc_channel *channel = NULL;

        test_fail_alloc(n++);
        r = rpc_channel_new(&options, &channel, NULL);
        assert_true(r == 0 || r == -ENOMEM);
        (void)rpc_channel_free(channel);
    } while (test_stop_alloc());
    assert_int_equal(r, 0);
}

/*
 * The allocations of one call, on both sides and in the threads of both. More
 * failures than requests are armed, so that a server that forgets to arm one
 * again would fall silent.
 */
static void a_call_fails_alone(void **state)
{
    struct rpc_status status = RPC_STATUS_INIT;
    struct fixture fixture;
    int failed = 0;

    (void)state;
    fixture_start(&fixture, (struct rpc_server_options){0});
    for (int round = 0; round < 80; round++) {
        for (int n = 0; n < 6; n++) {
            test_fail_alloc(n);
            failed += fixture_echo(&fixture, "hello", 5000, &status) != RPC_OK;
            (void)test_stop_alloc();
        }
    }
    assert_true(failed > 0);
    for (int i = 0; i < 200; i++)
        assert_int_equal(fixture_echo(&fixture, "hello", 5000, &status), RPC_OK);
    fixture_stop(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_server_is_made_or_not_at_all),
        cmocka_unit_test(a_channel_is_made_or_not_at_all),
        cmocka_unit_test(a_call_fails_alone),
    };

    return cmocka_run_group_tests(tests, test_rpc_init, test_rpc_fini);
}
