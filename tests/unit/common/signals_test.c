/* SPDX-License-Identifier: Apache-2.0 */
#include "common/signals.h"
#include "tests/harness/test.h"

#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sys/syscall.h>

#define LIBC_SIGNAL 32 /* the C library refuses it */

/* A field of /proc/self/status with a set of signals. */
static uint64_t signals_of(const char *field)
{
    FILE *status = fopen("/proc/self/status", "re");
    char line[256];
    uint64_t set = UINT64_MAX;

    assert_non_null(status);
    while (fgets(line, sizeof(line), status))
        if (strncmp(line, field, strlen(field)) == 0)
            set = strtoull(line + strlen(field), NULL, 16);
    (void)fclose(status);
    return set;
}

static void signals_are_as_the_kernel_has_them(void **state)
{
    const uint64_t ignore[4] = {1}; /* SIG_IGN, as the kernel has it */
    sigset_t all;

    (void)state;
    assert_int_equal(syscall(SYS_rt_sigaction, LIBC_SIGNAL, ignore, NULL, 8), 0);
    assert_int_equal(syscall(SYS_rt_sigaction, SIGUSR1, ignore, NULL, 8), 0);
    (void)sigfillset(&all);
    assert_int_equal(sigprocmask(SIG_SETMASK, &all, NULL), 0);
    assert_int_not_equal(signals_of("SigIgn:") & (UINT64_C(1) << (LIBC_SIGNAL - 1)), 0);

    assert_int_equal(cr_signals_reset(), 0);
    assert_int_equal(signals_of("SigIgn:"), 0);
    assert_int_equal(signals_of("SigCgt:"), 0);
    assert_int_equal(signals_of("SigBlk:"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(signals_are_as_the_kernel_has_them),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
