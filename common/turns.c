/* SPDX-License-Identifier: Apache-2.0 */
#include "common/turns.h"

#include <limits.h>

int cr_turn_ms(int wanted_ms)
{
    return wanted_ms < 0 || wanted_ms > CR_TURN_MS ? CR_TURN_MS : wanted_ms;
}

unsigned int cr_turns_look(struct cr_turns_watch *watch, uint64_t turns)
{
    if (turns != watch->turns)
        watch->looks = 0;
    else if (watch->looks < UINT_MAX)
        watch->looks++;
    watch->turns = turns;
    return watch->looks;
}
