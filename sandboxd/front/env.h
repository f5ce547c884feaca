/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Which environment variables a request may add. Pure. */

/* True for [A-Za-z_][A-Za-z0-9_]*, at most 256 characters. */
bool sbx_env_name_is_valid(const char *name);

/*
 * Why a request may not set this variable, e.g. "steers the loader …"; NULL
 * when it may.
 */
const char *sbx_env_refusal(const char *name);
