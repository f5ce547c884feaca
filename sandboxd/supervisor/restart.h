/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

/*
 * When a child that ended is started again: at once more slowly each time, and
 * not for ever. Pure.
 */
struct sbx_restart {
    unsigned int failures; /* in a row */
};

/*
 * The child had lived for `lived_ms`. Returns the delay in ms before the next
 * start, or -1 to give up.
 */
int sbx_restart_delay_ms(struct sbx_restart *restart, int64_t lived_ms);
