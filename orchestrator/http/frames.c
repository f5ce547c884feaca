/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/http/frames.h"

#include "orchestrator/graph/engine.h"
#include "orchestrator/http/shape.h"

#include <crisol/agent/v1/agent.pb-c.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* JSON of one event; a result carries every attempt with its files. */
#define EVENT_CAP ((size_t)32 << 20)
/* Larger frames are not kept: 4 MiB in all slots together. */
#define FRAME_KEPT_MAX ((size_t)64 << 10)

void agt_frames_init(struct agt_frames *frames)
{
    *frames = (struct agt_frames){.slots = {{.event = NULL}}};
    cr_buf_init(&frames->scratch, EVENT_CAP);
}

static void drop(struct agt_frames *frames, size_t slot)
{
    frames->slots[slot].event = agt_event_unref(frames->slots[slot].event);
    free(frames->slots[slot].text);
    frames->slots[slot].text = NULL;
}

void agt_frames_done(struct agt_frames *frames)
{
    for (size_t i = 0; i < AGT_FRAMES_SLOTS; i++)
        drop(frames, i);
    cr_buf_done(&frames->scratch);
}

/* Events of one run come one after the other, and so do their numbers; a delta has that of the
 * state event before it. */
static size_t slot_of(const struct agt_event *event)
{
    return (event->seq + ((uintptr_t)event >> 5)) % AGT_FRAMES_SLOTS;
}

static int write_frame(struct agt_frames *frames, const struct agt_event *event, struct cr_buf *out)
{
    Crisol__Agent__V1__RunEvent *unpacked =
        crisol__agent__v1__run_event__unpack(NULL, event->size, event->packed);
    int r = -EINVAL;

    if (unpacked)
        r = agt_shape_add_event(unpacked, event->is_state, &frames->scratch, out);
    crisol__agent__v1__run_event__free_unpacked(unpacked, NULL);
    return r;
}

/* Without memory for it, it is written again. */
static void keep(struct agt_frames *frames, struct agt_event *event, const char *text, size_t size)
{
    size_t slot = slot_of(event);
    char *copy = size <= FRAME_KEPT_MAX ? malloc(size) : NULL;

    if (!copy)
        return;
    memcpy(copy, text, size);
    drop(frames, slot);
    frames->slots[slot].event = agt_event_ref(event);
    frames->slots[slot].text = copy;
    frames->slots[slot].size = size;
}

int agt_frames_add(struct agt_frames *frames, struct agt_event *event, struct cr_buf *out)
{
    size_t slot = slot_of(event);
    size_t before = out->size;
    int r;

    if (frames->slots[slot].event == event)
        return cr_buf_add(out, frames->slots[slot].text, frames->slots[slot].size);
    r = write_frame(frames, event, out);
    if (r == 0)
        keep(frames, event, (const char *)out->data + before, out->size - before);
    return r;
}
