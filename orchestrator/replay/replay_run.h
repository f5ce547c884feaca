/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cr_err;

/* What came of repeating a run. */
struct agt_replay_report {
    char run_id[33];
    size_t events;   /* in the journal */
    size_t compared; /* of them; a run that was stopped from outside is repeated up to there */
    bool was_stopped;
    uint32_t different_at; /* state event; 0: nothing is different */
    char difference[512];
};

/*
 * Repeats a run on an engine of its own, without model and sandbox: every call
 * gets the end that was recorded. Prompts, requests to the sandbox and events
 * have to be what the journal holds, but for what a clock has measured.
 * `data` is a packed crisol.journal.v1.RunExport whose digest has to fit.
 * Returns 0 (then *ret_report tells whether something is different), -EBADMSG
 * for what is no such export or was changed, -EPROTO for one of a newer
 * program, or another negative errno.
 */
int agt_replay_run(const void *data, size_t size, struct agt_replay_report *ret_report,
                   struct cr_err *err);
