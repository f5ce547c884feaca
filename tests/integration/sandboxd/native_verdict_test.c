/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/harness/test.h"
#include "tests/integration/sandboxd/native_client.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

static struct native_client client;

static int start(void **state)
{
    (void)state;
    native_client_start(&client, NULL);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    native_client_stop(&client);
    return 0;
}

static void true_is_ok(void **state)
{
    static const char *const argv[] = {"/bin/true", NULL};
    struct native_run run;

    (void)state;
    native_client_run(&client, &(struct native_spec){.argv = argv}, &run);

    assert_int_equal(run.result.verdict, SBX_VERDICT_OK);
    assert_int_equal(run.result.exit_code, 0);
    assert_int_equal(run.result.signal, 0);
    assert_int_equal(run.result.has_hit, 0);
    assert_true(run.has_started && run.has_exited);
    assert_true(run.result.wall_us > 0);
    assert_true(run.result.cpu_total_us > 0);
    native_run_done(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(true_is_ok),
    };

    if (geteuid() != 0)
        return 77; /* boxes take root */
    return cmocka_run_group_tests(tests, start, stop);
}
