/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

/*
 * What the engine covers with something empty: what says more of the machine
 * and its kernel than of the program's own processes. A list of our own takes
 * the place of the engine's, so this one has its entries too. What a kernel
 * does not have is passed over. `has_groups`: sandbox-init reads the counters
 * of control groups, so that their folder stays. NULL-terminated, static.
 */
const char *const *sbx_covered_paths(bool has_groups);

/* The engine's own list, said so that it is read back. NULL-terminated. */
extern const char *const sbx_read_only_paths[];
