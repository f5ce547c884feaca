/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "sandboxd/selftest/tester.h"

#include <stddef.h>

#define SBX_ITEMS_MAX 512

/* Outcomes that are not about a probe. */
#define SBX_OUTCOME_GAPS UINT32_MAX          /* status: a bit for each control that is a gap */
#define SBX_OUTCOME_PROBLEM (UINT32_MAX - 1) /* seen: why nothing could be tried */

/* Every probe, in the order in which they are tried. */
struct sbx_catalog {
    size_t count;
    struct sbx_item items[SBX_ITEMS_MAX];
};

/* With what those answers are known to be instead, in another way or in a weaker one. */
void sbx_catalog_load(struct sbx_catalog *catalog, enum sbx_answers answers);

/* Tries the groups in turn. */
void sbx_catalog_run(struct sbx_tester *tester);

/* Index of the probes about what a stack leaves: it ends well; no process of it is left. */
size_t sbx_catalog_after_stop(void);
