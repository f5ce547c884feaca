/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "sandboxd/backend/backend.h"
#include "sandboxd/backend/weaken.h"
#include "sandboxd/docker/container.h"
#include "sandboxd/docker/image.h"
#include "sandboxd/docker/pool.h"
#include "sandboxd/docker/run.h"
#include "sandboxd/docker/session.h"
#include "sandboxd/docker/wreck.h"
#include "sandboxd/runtimes/table.h"
#include "sandboxd/wire/msg.h"

#include <stdbool.h>
#include <stdint.h>

struct cr_err;
struct sbx_engine;

/* The flags of the program, see main.c. */
struct sbx_docker_settings {
    uint64_t slots; /* 0: by cores */
    char *socket;   /* of the engine */
    char *image;
    char *base;
    char *pull;
    char *runtime;
    char *evidence; /* auto, outside or inside */
    char *instance;
    char *pool;    /* as for sbx_docker_pool_init() */
    char *preload; /* on, caller or off: here the first two are the same */
    char *init_path;
    char *roots; /* folder of registered runtimes, see builder/state.h; NULL: none */
    char *accept_gaps;
    uint64_t relay_user;
    uint64_t sessions;        /* that may live at one time */
    uint64_t session_life_ms; /* the longest that one may live */
    bool must_wait;           /* for an engine that does not answer yet */
    bool is_gc;
    bool is_ping;
    bool is_check;
    bool is_check_config; /* these settings alone */
    bool with_runtimes;   /* the operator's, on a descriptor of the supervisor */
    struct sbx_weaken_settings weaken;
    uint64_t slow_host; /* see common/patience.h */
    char *log_level;
    char *log_format;
    uint64_t maximum[SBX_LIMIT_COUNT]; /* 0: the built-in one */
};

/* Everything of the one process; one thread. */
struct sbx_docker {
    struct sbx_backend base; /* first, so that one is found from the other */
    const struct sbx_docker_settings *settings;
    struct sbx_engine *engine;
    int filter_fd; /* the exact filter, for sandbox-init */
    char *profile; /* the outer one, as JSON */
    char image[SBX_IMAGE_NAME_MAX];
    /* Of the runtimes that have a root file system of their own; "": the one above. */
    char root_images[SBX_RUNTIMES_MAX][SBX_IMAGE_NAME_MAX];
    struct sbx_container_plan plan;
    bool is_engine_lost;
    struct sbx_docker_run runs[SBX_SLOTS_MAX];
    struct sbx_docker_pool pool;
    struct sbx_docker_session sessions[SBX_SESSIONS_MAX];
    struct sbx_wreckage wreckage;
};

static inline struct sbx_docker *sbx_docker_of(struct sbx_backend *backend)
{
    return (struct sbx_docker *)backend;
}

/* The box whose `place` that is: of a run, or behind those of a slot of the pool. */
static inline struct sbx_docker_box *sbx_docker_box_at(struct sbx_docker *docker, uint32_t place)
{
    return place < SBX_SLOTS_MAX ? &docker->runs[place].box
                                 : &docker->pool.slots[place - SBX_SLOTS_MAX].box;
}

/* start.c */

/* Finds the engine and prepares everything up to the HELLO. The error says what is missing and the
 * fix. Returns 1 when the supervisor went away meanwhile. */
int sbx_docker_start(const struct sbx_docker_settings *settings, struct sbx_docker *docker,
                     struct cr_err *err);

/* Cleans up after sbx_backend_loop() or a failed start. */
void sbx_docker_stop(struct sbx_docker *docker);

/* Asks what the engine's host can enforce: fills in the controls, and refuses a gap that is not
 * accepted. */
int sbx_docker_ask_info(struct sbx_docker *docker, struct cr_err *err);

/* images.c */

/* The plan of the image that all runtimes without a root file system of their own are in. */
struct sbx_image_plan sbx_docker_main_image(const struct sbx_docker_settings *settings);

/* Makes sure of all images and finds out which runtimes can be run in them. Waits, minutes when
 * some have to be made. */
int sbx_docker_ensure_images(struct sbx_docker *docker, struct cr_err *err);

/* That of a runtime's containers. */
const char *sbx_docker_image_of(const struct sbx_docker *docker, uint32_t runtime);

/* events.c */

/* The kinds of events that are its own; the first, and those from SESSION on, have no job. */
enum sbx_docker_watch_kind {
    SBX_DOCKER_WATCH_ENGINE = SBX_WATCH_OWN,
    SBX_DOCKER_WATCH_ATTACH,
    SBX_DOCKER_WATCH_RELAY,
    SBX_DOCKER_WATCH_BOX,
    SBX_DOCKER_WATCH_SESSION,     /* one of them, between two of its runs */
    SBX_DOCKER_WATCH_POOL_ATTACH, /* and the index of the slot */
    SBX_DOCKER_WATCH_POOL_DEAD = SBX_DOCKER_WATCH_POOL_ATTACH + SBX_AHEAD_MAX, /* likewise */
    SBX_DOCKER_WATCH_END = SBX_DOCKER_WATCH_POOL_DEAD + SBX_AHEAD_MAX,
};

extern const struct sbx_backend_ops sbx_docker_ops;

/* The engine does not answer any more: no verdict is possible, the front says SANDBOX_LOST. */
void sbx_docker_lose_engine(struct sbx_docker *docker, const char *text);

/* check.c */

/* Prints each need of a start, PASS or FAIL with the fix, on standard output. Changes nothing.
 * Returns 0, or -ENOTSUP when sandboxd would not start. */
int sbx_docker_check(const struct sbx_docker_settings *settings, struct cr_err *err);

/* gc.c */

/* Removes what other processes of ours left behind. Says what on standard output. */
int sbx_docker_gc(const struct sbx_docker_settings *settings, struct cr_err *err);

/* Removes a container, whatever its state. Returns 1 when it is gone, or -errno. Waits. */
int sbx_docker_remove(struct sbx_engine *engine, const char *id, struct cr_err *err);

/* Removes every container of this instance; its owner is gone. Returns how many, or -errno. */
int sbx_docker_sweep(struct sbx_engine *engine, const char *instance, struct cr_err *err);
