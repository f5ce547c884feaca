/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "crisol/agent/v1/agent.pb-c.h"

#include <stdbool.h>
#include <stddef.h>

/*
 * Shows a run as it goes, on stderr: one short block per node, on a terminal
 * also a live line with the latest text of the model or the tests. Everything
 * that came from a model or a program is escaped.
 */
struct cli_view {
    bool is_terminal; /* live line and colours */
    char live[240];   /* tail of the text that is being written */
    size_t live_size;
    char policy[256]; /* one line about the effective policy; "" before the first run */
};

void cli_view_init(struct cli_view *view);

/* One event, in order. */
void cli_view_event(struct cli_view *view, const Crisol__Agent__V1__RunEvent *event);

/* The last lines: policy, result, verification, warnings. */
void cli_view_result(struct cli_view *view, const Crisol__Agent__V1__RunResult *result);

/* "FAILED" for a status, without its prefix. */
const char *cli_status_name(int status);
