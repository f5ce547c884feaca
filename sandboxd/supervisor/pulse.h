/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "common/turns.h"

#include <stdint.h>

enum sbx_pulse_state {
    SBX_PULSE_WELL,
    SBX_PULSE_STILL, /* not a word for some seconds: not to be vouched for */
    SBX_PULSE_DEAD,  /* for so long that it will not come back by itself */
};

/*
 * Whether a child still turns: it says so about once a second
 * (SBX_LIFELINE_TURNS), from when it is set up on. One that was never heard of
 * is still starting, which has deadlines of its own. All zero at first.
 */
struct sbx_pulse {
    uint64_t words; /* heard of it */
    struct cr_turns_watch watch;
    enum sbx_pulse_state state; /* at the last look */
};

/* The child has said that it turns. */
void sbx_pulse_hear(struct sbx_pulse *pulse);

/* A look, of which there is one each second. DEAD is said once, and again after as many looks. */
enum sbx_pulse_state sbx_pulse_look(struct sbx_pulse *pulse);
