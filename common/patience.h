/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

/*
 * How many times slower than a usual machine this one is: one number for the
 * whole process, and its children that are forked. It stretches each deadline
 * that is there because something may hang, and is chosen such that a usual
 * machine never comes near it; no limit of a policy, which means the same time
 * everywhere.
 */
#define CR_SLOWNESS_MAX 100
#define CR_SLOWNESS_ENVIRONMENT "CRISOL_SLOW_HOST"

/* The setting for it; `at` is the offset of a uint64_t. For a table of common/config.h. */
#define CR_SLOWNESS_SETTING(at)                                                                    \
    {                                                                                              \
        .flag = "slow-host", .environment = CR_SLOWNESS_ENVIRONMENT, .type = CR_SETTING_UINT,      \
        .offset = (at), .min = 1, .max = CR_SLOWNESS_MAX, .fallback = "1",                         \
        .help = "How many times slower than a usual machine this one is, as where processors are " \
                "emulated: stretches the deadlines of sandboxd's own steps, and no limit."         \
    }

/* Before the first thread and the first deadline. 0, which no setting can have, is 1. */
void cr_patience_set(uint64_t slowness);

/* 1, or what was set. */
uint32_t cr_patience(void);

/* What a usual machine is given, for this one; INT_MAX for more than that. */
int cr_patience_ms(int usual_ms);
int64_t cr_patience_ns(int64_t usual_ns);
