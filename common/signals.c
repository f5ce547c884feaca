/* SPDX-License-Identifier: Apache-2.0 */
#include "common/signals.h"

#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <unistd.h>

#include <sys/syscall.h>

#define KERNEL_SIGNALS 64 /* of x86-64 and aarch64 */

int cr_signals_reset(void)
{
    const uint64_t action[4] = {0}; /* the kernel's own struct, all zero: SIG_DFL */
    sigset_t none;

    for (int number = 1; number <= KERNEL_SIGNALS; number++)
        (void)syscall(SYS_rt_sigaction, number, action, NULL,
                      KERNEL_SIGNALS / 8); /* EINVAL for KILL, STOP */
    (void)sigemptyset(&none);
    return -pthread_sigmask(SIG_SETMASK, &none, NULL); /* it returns the number */
}
