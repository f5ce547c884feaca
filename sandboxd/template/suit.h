/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "sandboxd/wire/template.h"

#include <stdbool.h>

struct sbx_job;

/*
 * True when an interpreter of this kind, started before the job was known,
 * does for it what the job's own would: the runtime, arguments, environment
 * and stack are those that it was started with, and it need not be alone. Pure.
 */
bool sbx_template_suits(enum sbx_template_kind kind, const struct sbx_job *job);

/* How a program of such an interpreter came to be, for the result. */
enum sbx_start_mode sbx_template_start_mode(enum sbx_template_kind kind);
