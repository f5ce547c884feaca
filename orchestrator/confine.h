/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

struct agt_config;
struct cr_err;

/*
 * Confines the orchestrator (common/confine.h) to what its settings need:
 * the system's files for names, certificates and libraries, the folder of its
 * journal, its own addresses, and connections to sandboxd, to the model and to
 * name servers. A new part that opens files or connections elsewhere needs a
 * line here.
 *
 * Call once, after the privileges are dropped and before any thread starts.
 * *ret_landlock_abi is 0 when this kernel has no Landlock; the seccomp filter
 * still stands then. Returns 0 or -errno.
 */
int agt_confine(const struct agt_config *config, int *ret_landlock_abi, struct cr_err *err);
