/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "crisol/agent/v1/agent.pb-c.h"

#include <stdbool.h>
#include <stddef.h>

struct cr_buf;
struct cr_err;

/*
 * Cases whose questions enter the sandbox and whose answers never do: the
 * driver tells what each expression gave, and the host compares. What the
 * program says about itself is worth nothing here, since it does not know
 * which value is wanted.
 */

/* The program that asks, for the runtime "python" with solution.py beside it. Static. */
extern const char agt_oracle_driver[];

/* 0 when `text` is one JSON value that cases can be compared with; else -EINVAL with why. */
int agt_oracle_check_json(const char *text, struct cr_err *err);

/*
 * Appends what the driver reads from its input: the questions, and the mark
 * that its lines begin with, which the solution cannot know before it is
 * imported. Returns as cr_buf_add().
 */
int agt_oracle_add_questions(Crisol__Agent__V1__OracleCase *const *cases, size_t count,
                             const char *mark, struct cr_buf *buf);

enum agt_oracle_finding {
    AGT_ORACLE_SHOWN,
    AGT_ORACLE_WRONG,    /* a case does not hold */
    AGT_ORACLE_TAMPERED, /* a line that the driver does not write: an answer too many, or another */
};

/*
 * Compares what the driver wrote, which is untrusted, with what is expected.
 * `is_whole` says that it ended by itself and nothing of its output is
 * missing. Writes one line of UTF-8 to `summary`: names of cases and what
 * became of them, no expected value. Returns a finding, or -ENOMEM. Pure.
 */
int agt_oracle_judge(Crisol__Agent__V1__OracleCase *const *cases, size_t count, const char *mark,
                     const char *output, bool is_whole, char *summary, size_t summary_size);
