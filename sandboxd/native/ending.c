/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/log.h"
#include "sandboxd/native/native.h"

#include <assert.h>

#include <sys/epoll.h>

/*
 * When sandbox-init has told how its program ended, nobody but itself is alive
 * in the box, and it is about to end: the kernel then takes down a handful of
 * namespaces, and for the mounts it waits for an RCU grace period. None of
 * that changes the result, so the answer does not wait for it.
 */

static void finish(struct sbx_native *native, struct sbx_cell *cell)
{
    sbx_backend_unwatch(&native->base, cell->box.pidfd);
    sbx_box_reap(&cell->box);
    sbx_cell_close(native, cell);
}

void sbx_ending_add(struct sbx_native *native, struct sbx_cell *cell)
{
    struct sbx_ending *ending = &native->ending;

    assert(ending->count < SBX_GROUPS_MAX); /* each has a group */
    if (sbx_backend_watch(&native->base, cell->box.pidfd, EPOLLIN, SBX_NATIVE_WATCH_ENDED, NULL) <
        0) {
        cr_log_error("cannot watch a box that ends, waiting for it");
        finish(native, cell);
    } else {
        ending->cells[ending->count++] = *cell;
    }
    *cell = (struct sbx_cell)SBX_CELL_INIT;
}

void sbx_ending_close(struct sbx_native *native, struct sbx_cell *cell)
{
    if (cell->box.pidfd < 0) {
        sbx_cell_close(native, cell);
        return;
    }
    sbx_box_kill(&cell->box);
    (void)sbx_cell_freeze(cell, false); /* or it would not hear of it */
    sbx_ending_add(native, cell);
}

void sbx_ending_on_event(struct sbx_native *native)
{
    struct sbx_ending *ending = &native->ending;

    for (uint32_t i = 0; i < ending->count;) {
        if (!sbx_box_is_dead(&ending->cells[i].box)) {
            i++;
            continue;
        }
        finish(native, &ending->cells[i]);
        ending->cells[i] = ending->cells[--ending->count];
    }
}
