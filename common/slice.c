/* SPDX-License-Identifier: Apache-2.0 */
#include "common/slice.h"

#include <string.h>
#include <unistd.h>

#include <linux/sched/types.h>
#include <sys/syscall.h>

void cr_slice_set(unsigned long long slice_ns)
{
    struct sched_attr attr;

    memset(&attr, 0, sizeof(attr));
    /* Policy and nice value stay what they are: to lower the latter may not be allowed. */
    if (syscall(SYS_sched_getattr, 0, &attr, sizeof(attr), 0) < 0)
        return;
    attr.sched_runtime = slice_ns;
    (void)syscall(SYS_sched_setattr, 0, &attr, 0);
}
