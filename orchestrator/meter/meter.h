/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "crisol/agent/v1/agent.pb-c.h"

struct agt_meter;
struct cr_metrics;

/*
 * Counts what runs do, by the events that they emit. The engine's thread
 * notes, any thread writes. What a restart repeats from the journal is not
 * noted again, so counts are of this process.
 */
struct agt_meter *agt_meter_new(void);                     /* NULL: out of memory */
struct agt_meter *agt_meter_free(struct agt_meter *meter); /* NULL is allowed; returns NULL */

void agt_meter_note(struct agt_meter *meter, const Crisol__Agent__V1__RunEvent *event);

/* Every family, in Prometheus' text format. */
void agt_meter_write(const struct agt_meter *meter, struct cr_metrics *metrics);
