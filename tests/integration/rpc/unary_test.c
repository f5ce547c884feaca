/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/status.h"
#include "tests/integration/rpc/fixture.h"

#include <string.h>

static const struct rpc_server_options defaults = {0};

static void a_unary_call_is_answered(void **state)
{
    struct rpc_status status = RPC_STATUS_INIT;
    struct fixture fixture;

    (void)state;
    fixture_start(&fixture, defaults);

    assert_int_equal(fixture_echo(&fixture, "hello", 5000, &status), RPC_OK);
    assert_int_equal(fixture.service.last_uid, 1234);
    assert_true(fixture.service.has_deadline);

    fixture_stop(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_unary_call_is_answered),
    };

    return cmocka_run_group_tests(tests, group_init, group_fini);
}
