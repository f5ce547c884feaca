/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/runs/states.h"

#include "orchestrator/graph/engine.h"

#include <errno.h>

static void notify_nobody(void *user)
{
    (void)user;
}

int agt_states_each(struct agt_run *run,
                    void (*use)(void *user, Crisol__Agent__V1__RunEvent *event), void *user)
{
    struct agt_watch *watch = NULL;
    struct agt_event *packed = NULL;
    int r = agt_watch_new(run, 0, notify_nobody, NULL, &watch);

    while (r == 0 && agt_watch_next(watch, &packed) == 1) {
        Crisol__Agent__V1__RunEvent *event =
            packed->is_state
                ? crisol__agent__v1__run_event__unpack(NULL, packed->size, packed->packed)
                : NULL;

        if (event)
            use(user, event);
        else if (packed->is_state)
            r = -ENOMEM;
        crisol__agent__v1__run_event__free_unpacked(event, NULL);
        packed = agt_event_unref(packed);
    }
    (void)agt_watch_free(watch);
    return r;
}
