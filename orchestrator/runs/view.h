/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "crisol/agent/v1/agent.pb-c.h"

struct agt_run;

/* What a run looks like from outside, made of its state events alone. Any thread. */

/*
 * The result of a run that has ended; for one that goes on what is known so
 * far, with status RUNNING. Owned by the caller, freed with
 * crisol__agent__v1__run_result__free_unpacked(). NULL when memory is gone.
 */
Crisol__Agent__V1__RunResult *agt_view_result(struct agt_run *run);

/* Takes out what a list leaves out: files and sandbox results. */
void agt_view_shorten(Crisol__Agent__V1__RunResult *result);

typedef void (*agt_view_use_graph)(void *user,
                                   const Crisol__Agent__V1__DescribeGraphResponse *response);

/*
 * Describes the graph; with a run (NULL: none) the drawings mark its path.
 * `use` gets the response, valid until it returns. Returns 0 or -ENOMEM; then
 * `use` was not called.
 */
int agt_view_graph(struct agt_run *run, agt_view_use_graph use, void *user);
