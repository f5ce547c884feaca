/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "crisol/sandbox/v1/sandbox.pb-c.h"

#include <stddef.h>
#include <stdint.h>

/* What a run with a test that must fail says about the runner. */
enum agt_canary_finding {
    AGT_CANARY_TAMPERED, /* it did not fail, or the numbers hide it: failures are not reported */
    AGT_CANARY_UNSTABLE, /* it failed, and so did what had passed before */
    AGT_CANARY_SHOWN,    /* exactly its failures more */
};

/* The test that must fail: one in each file of tests, for a runner may be patched for one alone. */
struct agt_canary {
    const char *name;
    const char *text; /* that it fails with */
    uint32_t count;   /* of the files that have it */
};

/*
 * Compares the run of the tests (which passed) with the run that had the canary
 * besides. Writes one line of UTF-8 to `summary`, with untrusted text in it.
 * Pure.
 */
enum agt_canary_finding agt_canary_judge(const Crisol__Sandbox__V1__TestReport *before,
                                         const Crisol__Sandbox__V1__ExecuteResult *result,
                                         const struct agt_canary *canary, char *summary,
                                         size_t summary_size);
