/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "crisol/sandbox/v1/sandbox.pb-c.h"
#include "sandboxd/front/execution.h"
#include "sandboxd/front/report.h"
#include "sandboxd/wire/msg.h"

struct sbx_policy;

#define SBX_RESULT_TEXT_MAX 256

/* An ExecuteResult with everything that it points to. Must not be moved. */
struct sbx_result {
    Crisol__Sandbox__V1__ExecuteResult message;
    Crisol__Sandbox__V1__Verdict verdict;
    Crisol__Sandbox__V1__LimitHit hit;
    Crisol__Sandbox__V1__LimitHit others[SBX_OTHER_HITS_MAX];
    Crisol__Sandbox__V1__LimitHit *other_list[SBX_OTHER_HITS_MAX];
    Crisol__Sandbox__V1__Usage usage;
    Crisol__Sandbox__V1__Timing timing;
    Crisol__Sandbox__V1__StreamInfo streams[2];
    Crisol__Sandbox__V1__CollectedFile *files; /* owned */
    Crisol__Sandbox__V1__CollectedFile **file_list;
    struct sbx_report report;
    Crisol__Sandbox__V1__SandboxState sandbox;
    char summary[SBX_RESULT_TEXT_MAX];
    char verdict_message[SBX_RESULT_TEXT_MAX];
    char exec_error[SBX_RESULT_TEXT_MAX];
    char forbidden_call[SBX_RESULT_TEXT_MAX];
};

/*
 * Fills in the result of an execution that has ended and was not refused.
 * Borrows execution and policy: they outlive the result.
 * Returns 0 or -ENOMEM; sbx_result_done() is right after both.
 */
int sbx_result_fill(struct sbx_result *result, const struct sbx_execution *execution,
                    struct sbx_policy *policy);
void sbx_result_done(struct sbx_result *result);

/* What the texts of a verdict depend on. */
struct sbx_verdict_facts {
    const struct sbx_msg_result *wire;
    const struct sbx_limits *limits;
    const struct sbx_output *outputs[2];
    const char *missing_file; /* COLLECT_FAILED: the first required file that is missing */
    const Crisol__Sandbox__V1__TestReport *report; /* NULL: none */
};

/* One sentence for a person on why. Pure. */
void sbx_verdict_message(const struct sbx_verdict_facts *facts, char *text, size_t size);

/* One line for a person, e.g. "OK: exit 0 in 12 ms, 8.1 MiB". Pure. */
void sbx_verdict_summary(const struct sbx_verdict_facts *facts, char *text, size_t size);
