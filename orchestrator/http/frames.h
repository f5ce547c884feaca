/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "common/buf.h"

#include <stddef.h>

struct agt_event;

#define AGT_FRAMES_SLOTS 64

/*
 * Frames of server-sent events that were written before: many may follow one
 * run, and each gets the same bytes. Bounded; a frame that took the slot of
 * another is only written once more. Embedded in its owner; one thread.
 */
struct agt_frames {
    struct {
        struct agt_event *event; /* a reference, so that no other can have its address */
        char *text;              /* owned */
        size_t size;
    } slots[AGT_FRAMES_SLOTS];

    struct cr_buf scratch; /* the JSON of one event */
};

void agt_frames_init(struct agt_frames *frames);

/* Appends the event's frame (shape.h). Returns 0, -EINVAL for what is no event, or as cr_buf_add().
 */
int agt_frames_add(struct agt_frames *frames, struct agt_event *event, struct cr_buf *out);

void agt_frames_done(struct agt_frames *frames);
