/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

struct agt_run;
struct cr_buf;

/*
 * Appends what a person is told about a run that has ended: one paragraph in
 * the language of the task on what happened and what is in `files`. What a
 * program or a service said is quoted as it came. Best effort: a buffer that is
 * full cuts it.
 */
void agt_response_add(const struct agt_run *run, struct cr_buf *text);
