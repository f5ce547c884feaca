/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

struct cr_buf;

/*
 * The frames of server-sent events (html.spec.whatwg.org, 9.2). All append to
 * `buf` and return 0, or as cr_buf_add(); on failure nothing is added, so a
 * reader never sees half a frame.
 */

/* Tells the client when to reconnect. First on every stream. */
int agt_sse_add_preamble(struct cr_buf *buf);

/*
 * One event. `id` 0 writes no id line: only state events have one. `event` and
 * `data` hold no line break (-EINVAL), so that content cannot begin a frame of
 * its own.
 */
int agt_sse_add_event(struct cr_buf *buf, uint64_t id, const char *event, const char *data);

/* A comment, for proxies that close silent connections. */
int agt_sse_add_heartbeat(struct cr_buf *buf);
