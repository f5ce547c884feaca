/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

struct cr_buf;

/*
 * Appends text of a program, made fit to be read by a model: escape sequences
 * of terminals and control characters are left out, and what differs from run
 * to run is made equal (0x7f12… becomes 0x…, "in 0.12s" becomes "in N s").
 * `text` is UTF-8. Pure. Returns as cr_buf_add().
 */
int agt_clean_add(struct cr_buf *buf, const char *text, size_t size);

/*
 * Appends at most `max` bytes of `text`: whole when it fits, else its head and
 * its tail, cut at line ends where there are any near, with a note of how many
 * bytes are missing between them. Pure. Returns as cr_buf_add().
 */
int agt_clean_add_cut(struct cr_buf *buf, const char *text, size_t size, size_t max);
