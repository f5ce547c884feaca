/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "orchestrator/graph/fenced.h"
#include "orchestrator/graph/terms.h"
#include "orchestrator/verify/level.h"

#include <stdbool.h>
#include <stdint.h>

#define AGT_SEED_SIZE 49
/* Each costs a run: as many as tell half from less. */
#define AGT_MUTANTS_MAX 8

enum agt_check_kind {
    AGT_CHECK_HOST, /* comes out without a sandbox */
    AGT_CHECK_CANARY,
    AGT_CHECK_STUB,
    AGT_CHECK_MUTANT,
    AGT_CHECK_MUTANTS, /* counts those before it, without a sandbox */
    AGT_CHECK_OWN,     /* a command of the task */
    AGT_CHECK_ORACLE,  /* the cases of the task */
};

/* What a check runs in place of a file of the attempt. Owned; NULL: the file of the attempt. */
struct agt_check_files {
    char *solution;
    char *tests;
    char **more;      /* by index of the attempt's further files; NULL: none is replaced */
    const char *what; /* what is done to the solution, for a sentence: "all pass when …" */
    enum agt_check_kind kind;
    const Crisol__Agent__V1__OwnCheck *own; /* borrowed from the terms; NULL: none */
};

/* The checks of one attempt. Initialise with zeros but for the first two. */
struct agt_check_plan {
    char seed[AGT_SEED_SIZE]; /* random hexadecimal digits, for names that nothing can know */
    bool has_older_names;     /* as programs of journal format 1 made them (journal.h) */
    bool has_one_canary;      /* as those of 2 did: in the tests of the answer alone */
    struct agt_verification *verification; /* owned; one check for each of `files` */
    struct agt_check_files files[AGT_CHECKS_MAX];
    char name[40]; /* of the test that must fail: random, so that nothing can know it */
    char text[40]; /* its message, likewise */
    /* The acceptance tests of the terms with that test behind them, by index. Owned; NULL: there is
     * none of that index. */
    char *acceptance[AGT_TERMS_ACCEPTANCE_MAX];
    uint32_t canaries; /* files that have it */
    char mark[40];     /* of the answers to the cases, likewise */
    char *questions;   /* what the driver of the cases reads; NULL: there are none. Owned */
    const Crisol__Agent__V1__TaskTerms *terms; /* borrowed; NULL: none */
    bool tests_only_data; /* what the tests name of the solution is no function that was emptied */
    bool may_stop; /* runs of what was emptied, and of mutants, end at the first test that fails.
                      Set by whoever runs them */
};

/*
 * Lists the checks of a level, and those of the terms (NULL: none; they outlive the plan), and
 * writes their files. Those that need no sandbox have an outcome. Returns 0 or -ENOMEM. Pure.
 */
int agt_check_plan_make(const struct agt_files *files, Crisol__Agent__V1__VerificationLevel level,
                        const Crisol__Agent__V1__TaskTerms *terms, struct agt_check_plan *plan);
void agt_check_plan_done(struct agt_check_plan *plan);
