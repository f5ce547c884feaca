/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

struct cr_buf;

/*
 * Appends a unified diff (three lines of context) of two texts that are called
 * `name`; nothing when they are equal. Bounded: texts too different to compare
 * line by line in a moment are shown as removed and added whole, and a diff
 * that meets the cap of the buffer ends with a line that says so. Pure.
 * Returns 0 or -ENOMEM.
 */
int agt_diff_add(const char *name, const char *old_text, const char *new_text, struct cr_buf *buf);
