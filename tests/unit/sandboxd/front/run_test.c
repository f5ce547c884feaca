/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/front/run.h"
#include "tests/harness/test.h"

#include <errno.h>
#include <string.h>

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(run_moves_only_forward_and_never_from_its_end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
