/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "crisol/agent/v1/agent.pb-c.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a file of tests holds, counted. */
struct agt_test_counts {
    uint32_t tests;   /* functions named test… */
    uint32_t asserts; /* assertions: assert, raises, warns, assertEqual, … */
    uint32_t cases;   /* items of parametrize(…, […]) */
    uint32_t skips;   /* skip, xfail, … */
};

/* What became of a change of the tests. */
struct agt_audit {
    bool is_change; /* more than comments and white space */
    bool accepted;
    char reason[256]; /* why not: one sentence, worded for the model */
    struct agt_test_counts before;
    struct agt_test_counts after;
};

/*
 * Compares the tests of an earlier attempt with those of a later answer. A
 * change may correct a test and add tests. It may not leave out a test
 * function, put another one in its place, let it return at once, reduce the
 * assertions or the parametrized cases, or add a skip or an expected failure. Tests before that are
 * not Python may be replaced by anything. Returns 0 or -ENOMEM. Pure.
 */
int agt_audit_tests(const char *before, const char *after, struct agt_audit *ret_audit);

/* A message that borrows from the audit. */
void agt_audit_fill(const struct agt_audit *audit, Crisol__Agent__V1__TestChange *message);
