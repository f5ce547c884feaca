/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "sandboxd/backend/cgroup.h"
#include "sandboxd/backend/link.h"
#include "sandboxd/docker/container.h"
#include "sandboxd/docker/image.h"
#include "sandboxd/docker/run.h"
#include "sandboxd/docker/wreck.h"
#include "sandboxd/wire/msg.h"

#include <stdbool.h>
#include <stdint.h>

struct cr_err;
struct sbx_engine;

#define SBX_DOCKER_SLOTS_MAX 64U

/* The flags of the program, see main.c. */
struct sbx_docker_settings {
    uint64_t slots; /* 0: by cores */
    char *socket;   /* of the engine */
    char *image;
    char *base;
    char *pull;
    char *runtime;
    char *instance;
    char *init_path;
    char *accept_gaps;
    uint64_t relay_user;
    bool must_wait; /* for an engine that does not answer yet */
    bool is_gc;
    bool is_ping;
    bool is_check;
    char *log_level;
    char *log_format;
    uint64_t maximum[SBX_LIMIT_COUNT]; /* 0: the built-in one */
};

/* Everything of the one process; one thread. */
struct sbx_docker {
    const struct sbx_docker_settings *settings;
    struct sbx_engine *engine;
    int epoll_fd;
    struct sbx_link link; /* to the front */
    int lifeline_fd;
    int filter_fd; /* the exact filter, for sandbox-init */
    char *profile; /* the outer one, as JSON */
    char image[SBX_IMAGE_NAME_MAX];
    struct sbx_container_plan plan;
    struct sbx_cgroup_host cgroups;
    uint32_t slot_count;
    bool is_stopping;
    bool is_engine_lost;
    int64_t stop_deadline_ns;
    uint8_t controls[SBX_CONTROL_COUNT];
    struct sbx_docker_run runs[SBX_DOCKER_SLOTS_MAX];
    struct sbx_wreckage wreckage;
};

/* start.c */

/* Finds the engine and prepares everything up to the HELLO. The error says what is missing and the
 * fix. Returns 1 when the supervisor went away meanwhile. */
int sbx_docker_start(const struct sbx_docker_settings *settings, struct sbx_docker *docker,
                     struct cr_err *err);

/* Cleans up after sbx_docker_loop() or a failed start. */
void sbx_docker_stop(struct sbx_docker *docker);

/* loop.c */

/* Serves until the front, the supervisor or the engine is gone and every run has ended. */
int sbx_docker_loop(struct sbx_docker *docker, struct cr_err *err);

enum sbx_docker_watch_kind {
    SBX_DOCKER_WATCH_FRONT,
    SBX_DOCKER_WATCH_LIFELINE,
    SBX_DOCKER_WATCH_ENGINE,
    SBX_DOCKER_WATCH_ATTACH,
    SBX_DOCKER_WATCH_CONTROL,
    SBX_DOCKER_WATCH_RELAY,
    SBX_DOCKER_WATCH_BOX,
    SBX_DOCKER_WATCH_OOM,
    SBX_DOCKER_WATCH_COLLECTOR,
};

/* Watches `fd` for `events`; `run` is NULL for the first three kinds. Closing the fd ends it. */
int sbx_docker_watch(struct sbx_docker *docker, int fd, uint32_t events,
                     enum sbx_docker_watch_kind kind, const struct sbx_docker_run *run);

/* What link.c calls for the front\'s messages; their user is the struct sbx_docker. */
extern const struct sbx_link_ops sbx_docker_link_ops;

/* Sends to the front; a front that does not take it is dropped. */
void sbx_docker_send(struct sbx_docker *docker, const union sbx_msg *msg);

/* Kills every run and ends the loop when all are gone. Safe to repeat. */
void sbx_docker_begin_stop(struct sbx_docker *docker, const char *why);

/* The engine does not answer any more: no verdict is possible, the front says SANDBOX_LOST. */
void sbx_docker_lose_engine(struct sbx_docker *docker, const char *text);

/* Asks what the engine's host can enforce: fills in the controls, and refuses a gap that is not
 * accepted. */
int sbx_docker_ask_info(struct sbx_docker *docker, struct cr_err *err);

/* check.c */

/* Prints each need of a start, PASS or FAIL with the fix, on standard output. Changes nothing.
 * Returns 0, or -ENOTSUP when sandboxd would not start. */
int sbx_docker_check(const struct sbx_docker_settings *settings, struct cr_err *err);

/* gc.c */

/* Removes what other processes of ours left behind. Says what on standard output. */
int sbx_docker_gc(const struct sbx_docker_settings *settings, struct cr_err *err);

/* Removes every container of this instance; its owner is gone. Returns how many, or -errno. */
int sbx_docker_sweep(struct sbx_engine *engine, const char *instance, struct cr_err *err);
