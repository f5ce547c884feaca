/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

struct cr_err;

/* In the user namespace of `--rootless`; with ids beside his own there is one for the front. */
#define SBX_ROOTLESS_FRONT_ID 1U

/*
 * `--rootless`: from here on this process, and all that it starts, is root of
 * a user namespace of its own, and of a mount namespace. User 0 in there is on
 * the host whoever started it; ids from 1 on are those that /etc/subuid and
 * /etc/subgid give him, mapped by newuidmap(1) and newgidmap(1). Nothing of
 * that reaches further on the host than these users do. Before the first
 * thread.
 *
 * *ret_ids is how many there are beside user 0: none where the host gives him
 * none, which is then said in the log.
 * Returns 0 or -errno; the error says what forbids it.
 */
int sbx_rootless_enter(uint32_t *ret_ids, struct cr_err *err);
