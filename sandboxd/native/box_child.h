/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

struct sbx_box_plan;

/*
 * What the child does between clone3(2) and sandbox-init: enters the control
 * group, makes the network namespace, mounts, limits, identity, file
 * descriptors; then executes. Async-signal-safe calls only. A failure is
 * reported on `control_fd` (SBX_INIT_FAILED) and ends the child.
 */
__attribute__((noreturn)) void sbx_box_child(const struct sbx_box_plan *plan, int control_fd);
