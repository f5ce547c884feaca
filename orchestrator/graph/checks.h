/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "orchestrator/graph/evidence.h"
#include "orchestrator/verify/level.h"

#include <stdbool.h>
#include <stdint.h>

struct agt_call;
struct agt_run;

/*
 * The checks that an attempt goes through once its own tests have passed: the
 * test that must fail, the look for objects that equal everything, the tests
 * on emptied functions. Each run is in a sandbox of its own, several side by
 * side. Belongs to a run, on the engine's thread; it may be freed only when no
 * call is in flight.
 */
struct agt_checks;

/*
 * Prepares what the run's level asks for. Checks that need no sandbox have
 * come out when this returns. Returns 0 or -ENOMEM.
 */
int agt_checks_new(struct agt_run *run, struct agt_checks **ret_checks);
struct agt_checks *agt_checks_free(struct agt_checks *checks); /* NULL allowed; returns NULL */

/* Starts what can be started; may fail the run. */
void agt_checks_advance(struct agt_run *run, struct agt_checks *checks);

/* Takes the result of a call. Judges, or lets it be tried again; may fail the run. */
void agt_checks_on_end(struct agt_run *run, struct agt_checks *checks, struct agt_call *call);

/* What becomes of the recorded end of a call that does not wait for it. */
enum agt_demand {
    AGT_DEMAND_UNKNOWN,  /* it is no try of a check, or not the next one */
    AGT_DEMAND_STARTED,  /* the try waits for it now: the clocks had let it begin later */
    AGT_DEMAND_UNWANTED, /* the call had been cancelled: its end changes nothing */
};

/* For the repetition of a run. `key`: the id of the request. */
enum agt_demand agt_checks_demand(struct agt_run *run, const char *key);

/* True when nothing is in flight or waiting: all came out, or one refuted the attempt. */
bool agt_checks_are_over(const struct agt_checks *checks);

/* NULL when the attempt stands; else what a check found. Borrowed. */
const struct agt_evidence *agt_checks_refutation(const struct agt_checks *checks);

/* The sandbox run that refutes the attempt by a failure of its own. */
struct agt_witness {
    Crisol__Sandbox__V1__ExecuteResult *result; /* NULL: there is none */
    char *stdout_text;                          /* NULL: not its own, but that of the tests */
    char *stderr_text;
};

/* Borrowed. */
const struct agt_witness *agt_checks_witness(const struct agt_checks *checks);

/* Concluded; moves to the caller. */
struct agt_verification *agt_checks_take_verification(struct agt_checks *checks);

/* The rest takes NULL, too. */
bool agt_checks_are_in_flight(const struct agt_checks *checks);
void agt_checks_cancel(struct agt_checks *checks);
int64_t agt_checks_due_ns(const struct agt_checks *checks); /* INT64_MAX: never */
