/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "orchestrator/graph/check_plan.h"
#include "orchestrator/graph/checks.h"
#include "orchestrator/graph/tries.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * What the checks of an attempt are made of, for checks.c (how they come out)
 * and checks_start.c (which of them run, and as what). Nothing else includes
 * this.
 */

/* What a check goes through, beside its result. */
struct agt_check_item {
    struct agt_call *call; /* in flight. Owned until its end */
    struct agt_tries tries;
    uint32_t number; /* among those that run; 0: it does not */
    uint32_t starts;
    uint32_t reruns;
    int64_t retry_at_ns; /* 0: not waiting */
};

struct agt_checks {
    struct agt_check_plan plan;
    struct agt_check_item items[AGT_CHECKS_MAX];
    uint32_t starts;   /* of all */
    size_t refuted_by; /* index; AGT_CHECKS_MAX: none. Those behind it are not made any more */
    struct agt_evidence refutation;
    struct agt_witness witness; /* owned */
};

static inline struct agt_verification *agt_checks_verification(const struct agt_checks *checks)
{
    return checks->plan.verification;
}

static inline enum agt_check_kind agt_checks_kind(const struct agt_checks *checks, size_t index)
{
    return checks->plan.files[index].kind;
}

/* It has not come out. */
static inline bool agt_checks_is_open(const struct agt_checks *checks, size_t index)
{
    return checks->plan.verification->checks[index].outcome ==
           CRISOL__AGENT__V1__CHECK_OUTCOME__CHECK_OUTCOME_UNSPECIFIED;
}

/* It is open, runs in a sandbox, and does not run now. */
bool agt_checks_needs_run(const struct agt_checks *checks, size_t index);

/* Numbers those that run, before anything has run: the numbers depend on the plan alone. */
void agt_checks_number(struct agt_checks *checks);

/* What a sandbox run took; 0: not known. */
uint32_t agt_check_wall_ms(const Crisol__Sandbox__V1__ExecuteResult *result);

/* Not before so much time has passed. Negative: it is not tried again. */
void agt_check_wait(struct agt_check_item *item, int64_t wait_ms);
