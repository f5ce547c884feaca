/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "common/buf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Reads a text/event-stream byte by byte (WHATWG HTML, "Server-sent events"):
 * lines end with LF, CR or CRLF; a BOM, comments and unknown fields are
 * skipped; the data lines of an event are joined with LF. Names and ids of
 * events are not kept: Gemini sends none.
 *
 * Servers and gateways also put bare JSON into the stream when they fail in
 * the middle of it. A line that begins with '{' or '[' starts such a block; it
 * lasts until the next data line or the end and is handed out on its own.
 *
 * Pure: no I/O, any chunking gives the same events.
 */
struct agt_sse_handlers {
    /*
     * One event. `is_cut`: the stream ended before the blank line, so that it
     * may be incomplete. The data may be changed in place. A negative return stops the feed and is
     * returned by it.
     */
    int (*on_event)(void *user, char *data, size_t size, bool is_cut);
    /* A block of bare JSON. */
    int (*on_unframed)(void *user, char *data, size_t size);
    void *user;
};

/* Embedded in its owner. */
struct agt_sse {
    struct agt_sse_handlers handlers;
    struct cr_buf line;
    struct cr_buf event;
    struct cr_buf unframed;
    uint64_t lines; /* complete lines seen: a measure of progress */
    bool has_data;
    bool is_unframed;
    bool skip_lf; /* the last byte was the CR of what may be a CRLF */
};

/* Allocates nothing. `max_event` in bytes bounds a line, an event and a bare block. */
void agt_sse_init(struct agt_sse *sse, size_t max_event, const struct agt_sse_handlers *handlers);

void agt_sse_done(struct agt_sse *sse);

/* Returns 0, -ENOSPC when something is larger than max_event, -ENOMEM, or what a handler returned.
 */
int agt_sse_feed(struct agt_sse *sse, const void *data, size_t size);

/* The stream has ended: hands out what is left. Returns as agt_sse_feed(). */
int agt_sse_end(struct agt_sse *sse);
