/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

struct sbx_item;

/*
 * Where a container answers a probe in another way than a box of the native
 * backend: another refusal, which is expected then, or something weaker,
 * which the report calls a GAP. What is in neither column is expected to be
 * the same.
 */
void sbx_docker_answer(struct sbx_item *item);

/* How many probes have such an answer. */
size_t sbx_docker_answer_count(void);
