/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/supervisor/pulse.h"

#include "common/patience.h"

#define LOOKS_STILL 3U
/* A front whose threads stand still ends itself before, and says which of them it was. */
#define LOOKS_DEAD 40U

void sbx_pulse_hear(struct sbx_pulse *pulse)
{
    pulse->words++;
}

static enum sbx_pulse_state judge(unsigned int looks)
{
    if (looks < LOOKS_STILL * cr_patience())
        return SBX_PULSE_WELL;
    return looks % (LOOKS_DEAD * cr_patience()) == 0 ? SBX_PULSE_DEAD : SBX_PULSE_STILL;
}

enum sbx_pulse_state sbx_pulse_look(struct sbx_pulse *pulse)
{
    if (pulse->words > 0)
        pulse->state = judge(cr_turns_look(&pulse->watch, pulse->words));
    return pulse->state;
}
