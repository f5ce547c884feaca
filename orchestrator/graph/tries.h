/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

struct agt_call;
struct agt_run;

/* Internal to orchestrator/graph: faults of the sandbox, which are no fault of the program. They
 * are tried again, never counted, and never shown to the model. */

/* How a try failed. */
enum agt_fault {
    AGT_FAULT_NONE,
    AGT_FAULT_FAILED,  /* worth another try */
    AGT_FAULT_BUSY,    /* worth waiting for: it said so */
    AGT_FAULT_REFUSED, /* the same request would be refused again */
    AGT_FAULT_FOREIGN, /* somebody else cancelled it */
};

/* Tries of one sandbox run. */
struct agt_tries {
    uint32_t failed;
    uint32_t busy;
};

/* NONE: the call has a result with a verdict on the program. *ret_message is borrowed from it. */
enum agt_fault agt_fault_of_call(const struct agt_call *call, const char **ret_message);

/*
 * Counts the fault. Returns how long to wait before the next try, in ms, or
 * -1 when there will be none: then the run has failed.
 */
int64_t agt_fault_wait_ms(struct agt_run *run, struct agt_tries *tries, enum agt_fault fault,
                          int32_t retry_after_ms, const char *message);
