/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct sbx_seccomp_filter;

/*
 * What is answered to one system call. The policy is data (seccomp_policy.c);
 * seccomp.c compiles it and knows no system call by name.
 */
struct sbx_seccomp_rule {
    uint32_t number;                         /* of this architecture */
    uint32_t answer;                         /* SECCOMP_RET_…, when `filter` is NULL */
    const struct sbx_seccomp_filter *filter; /* decides by the arguments */
};

/* In no order; a system call that is in no row is answered with ENOSYS. */
const struct sbx_seccomp_rule *sbx_seccomp_policy(size_t *ret_count);
