/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct cr_err;
struct sbx_native;
struct sbx_native_settings;

#define SBX_NEED_NO_CONTROL UINT32_MAX

/*
 * One thing that a start needs of the host. Meeting it prepares it: the list,
 * in its order, is the start. The error says what is missing and the fix.
 */
struct sbx_need {
    const char *name;
    int (*meet)(const struct sbx_native_settings *settings, struct sbx_native *native,
                uint32_t argument, struct cr_err *err);
    uint32_t argument;
    uint32_t control;            /* enum sbx_control whose gap it shows, or SBX_NEED_NO_CONTROL */
    bool is_basis;               /* what comes behind cannot be tried without it … */
    bool is_free;                /* … but for what needs nothing of the above */
    bool argument_is_capability; /* it has the name of its capability */
};

/* The list; a row without a function ends it. */
extern const struct sbx_need sbx_needs[];

/* Meets all, in order; the first that fails ends it. */
int sbx_needs_meet(const struct sbx_native_settings *settings, struct sbx_native *native,
                   struct cr_err *err);
