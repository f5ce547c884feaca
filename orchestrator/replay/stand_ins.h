/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "crisol/journal/v1/journal.pb-c.h"
#include "orchestrator/model/model.h"
#include "orchestrator/sandbox/sandbox.h"
#include "orchestrator/store/store.h"

#include <stdatomic.h>

/*
 * Internal to orchestrator/replay: what an engine stands on when it may only
 * repeat. Model and sandbox refuse every call; the store has one run and takes
 * nothing.
 */
struct agt_stand_ins {
    struct agt_model model; /* first of what has to be cast back: none of them is */
    struct agt_sandbox sandbox;
    struct agt_store store;                       /* see of() in stand_ins.c */
    const Crisol__Journal__V1__RunExport *export; /* borrowed */
    size_t count;                                 /* events that the store shows */
    atomic_bool has_gone_on;                      /* the run wanted to write more */
};

void agt_stand_ins_init(struct agt_stand_ins *stand_ins,
                        const Crisol__Journal__V1__RunExport *export, size_t count);
