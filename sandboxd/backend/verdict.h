/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "sandboxd/backend/cgroup.h"
#include "sandboxd/wire/msg.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * From what the backend saw to what it says. Pure: the whole taxonomy is a
 * table of rows in the test. Nothing in here can be written by the program:
 * an exit code of 137 or a signal 9 alone never makes a limit verdict.
 */

/* Something that ended the run, in the order it was seen. */
struct sbx_event {
    uint32_t verdict;  /* a limit verdict, SECURITY_VIOLATION or CANCELLED */
    uint64_t observed; /* in the unit of the limit */
};

#define SBX_EVENTS_MAX 6

struct sbx_facts {
    const struct sbx_limits *limits; /* borrowed for the call */
    bool has_leader;                 /* sandbox-init reported the end of the program */
    int32_t wait_status;
    bool is_killed;          /* we sent SIGKILL before the leader ended */
    bool is_watched;         /* every forbidden call would be an event: no SIGSYS is the filter's */
    bool has_forbidden_call; /* with the event SECURITY_VIOLATION */
    uint32_t forbidden_call; /* its number, or a value of boxctl.h */
    uint32_t stage;          /* enum sbx_stage of a failed start, NONE otherwise */
    int32_t error;           /* errno of it */
    bool is_sandboxd_killing; /* where the kernel does not limit: then nobody else kills */
    uint32_t event_count;
    struct sbx_event events[SBX_EVENTS_MAX];
    struct sbx_cgroup_usage usage; /* deltas since GO */
    uint64_t workspace_bytes;
    uint64_t workspace_inodes;
    bool is_workspace_full; /* out of bytes or of inodes */
    bool is_out_of_inodes;  /* a share of it, although all of it holds fewer than the limit says */
    bool is_output_over;    /* the drain passed the output limit with policy KILL */
    uint64_t output_observed;
    bool is_collect_failed;
    bool is_file_at_limit; /* a file of the workspace has exactly the size limit */
};

/* The first process has ended, and not with exit code 0. */
bool sbx_facts_leader_failed(const struct sbx_facts *facts);

/* Adds an event; a second one of the same verdict is ignored. */
void sbx_facts_add(struct sbx_facts *facts, enum sbx_verdict verdict, uint64_t observed);

/* Fills in verdict, exit_code, signal, stage, stage_errno, forbidden_call, hit and other_hits. */
void sbx_verdict_decide(const struct sbx_facts *facts, struct sbx_msg_result *result);
