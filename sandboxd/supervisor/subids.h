/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <sys/types.h>

/* Ids that belong to a user beside his own. */
struct sbx_subids {
    uint32_t first;
    uint32_t count;
};

/*
 * Pure: the largest range that `text`, as /etc/subuid or /etc/subgid has it
 * (subuid(5)), gives the user `name` (NULL: he has none) or `uid`. Lines that
 * cannot be read are passed over, as newuidmap(1) does. False: none.
 */
bool sbx_subids_find(const char *text, const char *name, uid_t uid, struct sbx_subids *ret_range);
