/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "sandboxd/selftest/catalog.h"

#include <stdbool.h>
#include <stdint.h>

struct cr_err;

/* Everything that was found out. */
struct sbx_report {
    const char *backend; /* borrowed: its name */
    struct sbx_catalog catalog;
    uint32_t status[SBX_ITEMS_MAX]; /* enum sbx_status */
    char seen[SBX_ITEMS_MAX][112];
    uint32_t gaps;                   /* a bit for each control */
    uint32_t accepted;               /* likewise: by name, with all their probes */
    bool is_accepted[SBX_ITEMS_MAX]; /* probes by name; see sbx_report_accepts() */
    uint32_t weakened; /* enum sbx_control: left out on purpose in the main run, or NO_CONTROL */
    uint32_t red[SBX_CONTROL_COUNT]; /* probes that failed when it was left out */
    char red_problem[SBX_CONTROL_COUNT][112];
    char problem[112]; /* why not everything was tried; "" */
};

/* A probe of a control that the host cannot enforce is a GAP and no FAIL, as is one that the
 * backend is known to answer in a weaker way (of a control that is PARTIAL there). Once, at the
 * end. */
void sbx_report_settle(struct sbx_report *report);

/* Finds the control `name` of `size` bytes. SBX_NO_CONTROL: there is none. */
uint32_t sbx_report_find_control(const char *name, size_t size);

/*
 * Accepts what `names` (comma-separated; NULL: nothing) are: a control, to be
 * missing or weaker, or one probe, to have a weaker answer. Behind
 * sbx_catalog_load(). -EINVAL for a name that is neither.
 */
int sbx_report_accept(struct sbx_report *report, const char *names, struct cr_err *err);

/* True when a GAP of this probe is accepted, by its own name or its control's. */
bool sbx_report_accepts(const struct sbx_report *report, size_t index);

/* How many probes of `control` (SBX_NO_CONTROL: of all) have a status; no answer is an ERROR,
 * too. */
uint32_t sbx_report_count(const struct sbx_report *report, uint32_t control,
                          enum sbx_status status);

/* True when every control held, every one was seen red, and no gap is there that is not accepted.
 */
bool sbx_report_is_good(const struct sbx_report *report);

void sbx_report_print_text(const struct sbx_report *report);
void sbx_report_print_json(const struct sbx_report *report);
