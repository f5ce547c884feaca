/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "crisol/agent/v1/agent.pb-c.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cr_buf;
struct rpc_status;

#define AGT_TERMS_MAX 1048576U /* bytes, packed */
#define AGT_TERMS_INPUTS_MAX 32
#define AGT_TERMS_ACCEPTANCE_MAX 16
#define AGT_TERMS_FILES_MAX (AGT_TERMS_INPUTS_MAX + AGT_TERMS_ACCEPTANCE_MAX)
#define AGT_TERMS_CASES_MAX 64
#define AGT_TERMS_CHECKS_MAX 8

/*
 * Adds a violation of "terms…" for everything that is wrong with them. NULL:
 * none. `level` is the one asked for, or 0. Of a run of the store
 * (`is_stored`), which an older program may have let in, what its cases name
 * and compare with may be anything, and its files may lie where sandboxd will
 * not have them. Pure.
 */
void agt_terms_check(const Crisol__Agent__V1__TaskTerms *terms, int level, bool is_stored,
                     struct rpc_status *status);

/* The same of packed ones, their wire form included. */
void agt_terms_check_packed(const void *packed, size_t size, int level, bool is_stored,
                            struct rpc_status *status);

/* The level that is in force. `terms` may be NULL. */
Crisol__Agent__V1__VerificationLevel agt_terms_level(const Crisol__Agent__V1__TaskTerms *terms,
                                                     int level);

/* Appends for the model the files that come with the task. `terms` may be NULL. Returns as
 * cr_buf_add(). */
int agt_terms_add_prompt(const Crisol__Agent__V1__TaskTerms *terms, struct cr_buf *buf);
