/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

struct agt_model;
struct agt_run_spec;
struct agt_sandbox;
struct rpc_status;

/*
 * Checks a request before a run is made of it: every bad field is named.
 * Returns 0; -EINVAL with violations; -ENOKEY with FAILED_PRECONDITION when
 * the model has no key. Pure but for the questions whether there is one, and
 * what sandboxd allows: other limits would be refused there once a plan and an
 * answer have been paid for.
 */
int agt_admission_check(struct agt_model *model, struct agt_sandbox *sandbox,
                        const struct agt_run_spec *spec, struct rpc_status *ret_status);
