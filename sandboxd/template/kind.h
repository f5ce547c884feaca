/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "sandboxd/runtimes/table.h"
#include "sandboxd/wire/template.h"

/* The runtime whose programs a template makes. */
const struct sbx_runtime *sbx_template_runtime(enum sbx_template_kind kind);

/* For logs: "python", "pytest", "pytest-shallow". */
const char *sbx_template_name(enum sbx_template_kind kind);
