/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <crisol/agent/v1/agent.pb-c.h>
#include <stddef.h>

struct agt_problem;

/*
 * Reads the body of /generate and /stream. Pure. On success *ret_request is
 * owned by the caller (rpc/json.h tells how to free). On failure ret_problem
 * is a 422 that names the path, and *ret_request is untouched.
 *
 * The engine judges values; here is only what a protobuf message cannot tell:
 * a task that is missing from one that is empty, and a max_iterations of 0,
 * which JSON callers mean as a number, from the default.
 */
int agt_run_body_read(const char *text, size_t size,
                      Crisol__Agent__V1__GenerateRequest **ret_request,
                      struct agt_problem *ret_problem);
