/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

struct agt_model;
struct agt_run_spec;
struct rpc_status;

/*
 * Checks a request before a run is made of it: every bad field is named.
 * Returns 0; -EINVAL with violations; -ENOKEY with FAILED_PRECONDITION when
 * the model has no key. Pure but for the question whether there is one.
 */
int agt_admission_check(struct agt_model *model, const struct agt_run_spec *spec,
                        struct rpc_status *ret_status);
