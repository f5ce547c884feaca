/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "crisol/sandbox/v1/sandbox.pb-c.h"

#include <stddef.h>

/*
 * The JUnit XML of a test run as a TestReport. The file was written in the
 * box, so it is hostile until parsed: no DTD, bounded depth, bounded number
 * and size of everything that is kept.
 */
struct sbx_report {
    Crisol__Sandbox__V1__TestReport message; /* points into what this struct owns */
    Crisol__Sandbox__V1__TestCase **cases;
    size_t case_count;
};

#define SBX_REPORT_CASES_MAX 1024U
#define SBX_REPORT_BAD_FIRST_MAX 256U /* cases that did not pass, put before the others */
#define SBX_REPORT_DETAILS_MAX (8U << 10)
#define SBX_REPORT_DETAILS_TOTAL (512U << 10)

/*
 * Parses. A file that is no report gives is_present false and says why in
 * `problem`; never fails otherwise. `problem` set by the caller for a file
 * that was not there: pass NULL data and the text.
 */
void sbx_report_parse(struct sbx_report *report, const void *data, size_t size,
                      const char *problem);

/* Frees what the report owns. Safe on a zeroed struct. */
void sbx_report_done(struct sbx_report *report);
