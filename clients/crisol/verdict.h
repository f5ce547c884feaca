/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "crisol/sandbox/v1/sandbox.pb-c.h"

#include <stdbool.h>

/* The exit code of `crisol exec` for a result: pure. A missing result is CLI_EXIT_SERVICE. */
int cli_verdict_exit_code(const Crisol__Sandbox__V1__ExecuteResult *result);

/* True when the program ended by itself, so that its exit code needs no word of ours. */
bool cli_verdict_is_programs_own(const Crisol__Sandbox__V1__ExecuteResult *result);

/* "MEMORY_LIMIT" for a code: the name without its prefix; "UNKNOWN" for a new number. */
const char *cli_verdict_name(int code);
