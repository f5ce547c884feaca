/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "crisol/agent/v1/agent.pb-c.h"

#include <stdbool.h>
#include <stddef.h>

/* What a level of verification shows, and what it does not stop: one sentence each. */
const char *agt_level_shows(Crisol__Agent__V1__VerificationLevel level);
const char *agt_level_does_not_stop(Crisol__Agent__V1__VerificationLevel level);

/* The same in Spanish, for what a person reads. */
const char *agt_level_does_not_stop_spanish(Crisol__Agent__V1__VerificationLevel level);

/* "STUBS" */
const char *agt_level_name(Crisol__Agent__V1__VerificationLevel level);

#define AGT_LEVEL_DEFAULT CRISOL__AGENT__V1__VERIFICATION_LEVEL__VERIFICATION_LEVEL_STUBS
#define AGT_LEVEL_MAX CRISOL__AGENT__V1__VERIFICATION_LEVEL__VERIFICATION_LEVEL_ORACLE

#define AGT_CHECKS_MAX 24 /* canary, 8 own ones, 3 of STUBS, 9 of MUTANTS, oracle */

/* How a check came out. */
struct agt_check_result {
    Crisol__Agent__V1__VerificationLevel level;
    Crisol__Agent__V1__CheckOutcome outcome;
    bool is_part; /* of another check of its level, which alone counts */
    char name[80];
    char summary[320];
    uint32_t wall_ms;
};

/* What was shown about an attempt whose tests passed. */
struct agt_verification {
    Crisol__Agent__V1__VerificationLevel requested;
    Crisol__Agent__V1__VerificationLevel level; /* reached */
    char shows[768];
    char does_not_stop[512];
    struct agt_check_result checks[AGT_CHECKS_MAX];
    size_t check_count;
};

/*
 * Fills in the level that was reached and its sentences. A level counts when
 * it has checks and each of them, and each of the levels before it, shows what
 * it is meant to show. Pure.
 */
void agt_verification_conclude(struct agt_verification *verification);

/* A message that borrows from the verification. */
struct agt_verification_message {
    Crisol__Agent__V1__Verification base;
    Crisol__Agent__V1__VerificationCheck checks[AGT_CHECKS_MAX];
    Crisol__Agent__V1__VerificationCheck *list[AGT_CHECKS_MAX];
};

void agt_verification_fill(struct agt_verification *verification,
                           struct agt_verification_message *message);
void agt_check_fill(struct agt_check_result *check, Crisol__Agent__V1__VerificationCheck *message);
