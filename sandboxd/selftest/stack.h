/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "common/listen.h"
#include "sandboxd/backend/userns.h"
#include "sandboxd/supervisor/child.h"

#include <stdbool.h>
#include <stdint.h>

struct cr_err;

#define SBX_STACK_SLOTS 2U
#define SBX_STACK_POOL 2U /* boxes that wait */
/* Host ids of one stack: of its runs, of its pool, and of boxes that end behind their answer. */
#define SBX_STACK_IDS ((SBX_STACK_SLOTS + SBX_STACK_POOL + SBX_USERNS_SPARE) * SBX_USERNS_RANGE)

/* What to attack. Strings are borrowed, NULL: the default of sandboxd. */
struct sbx_target {
    bool is_docker;   /* else native */
    bool is_rootless; /* native, in the user namespace that we are root of */
    bool has_ids;     /* in which there are users beside 0 */
    char *docker_socket;
    char *docker_image;
    char *docker_base;
    char *docker_pull;
    char *docker_runtime;
};

/* What answers the probes. */
enum sbx_answers {
    SBX_ANSWERS_NATIVE,
    SBX_ANSWERS_ONE_ID, /* likewise, without root, and with one user id for all */
    SBX_ANSWERS_DOCKER,
};

/* Of an ordinary user's, when it was entered: see sbx_rootless_enter(). */
enum sbx_answers sbx_target_answers(const struct sbx_target *target);

/*
 * A backend and a front of our own, started as the supervisor starts them, on
 * a socket in a folder that only we can enter (the caller's, who removes it). The supervisor itself
 * is left out, because it has no way to leave a control out, and is to have none.
 */
struct sbx_stack {
    char address[64]; /* for a channel */
    struct cr_listen listen;
    struct sbx_child backend;
    struct sbx_child front;
    bool is_rootless;
    char token[48]; /* an argument of every program that it runs */
    uint32_t
        uid_base; /* of its boxes; docker: the first is that of its relays; rootless: nobody's */
    uint32_t slots;
};

/*
 * Starts both and waits until they serve on `socket`, a path. `weakened` is the control to leave
 * out, or SBX_CONTROL_COUNT. Must not be called behind rpc_init(). On failure
 * nothing is left.
 */
int sbx_stack_start(struct sbx_stack *stack, const struct sbx_target *target, const char *socket,
                    uint32_t weakened, struct cr_err *err);

/* Removes the images that weakened boxes were made of, as `sandboxd gc` does. */
int sbx_stack_clean(const struct sbx_target *target, struct cr_err *err);

/* Ends both, by force when they do not end in time. Returns 0 when both ended well, else -EIO. */
int sbx_stack_stop(struct sbx_stack *stack);
