/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "sandboxd/backend/cgroup.h"
#include "sandboxd/docker/container.h"
#include "sandboxd/docker/relay.h"
#include "sandboxd/wire/msg.h"

#include <stdbool.h>
#include <stdint.h>

#include <sys/types.h>

struct sbx_docker;
struct sbx_docker_run;

/* Of the making of a box, in this order: each waits for an answer of the engine. */
enum sbx_docker_step {
    SBX_DOCKER_NOTHING, /* no container, nothing asked for */
    SBX_DOCKER_CREATING,
    SBX_DOCKER_ATTACHING, /* waits for the hijack */
    SBX_DOCKER_STARTING,
    SBX_DOCKER_INSPECTING, /* sandbox-init runs and waits: the policy is read back */
    SBX_DOCKER_MADE,
};

/* /workspace, /tmp, /dev/shm: each a tmpfs of its own. */
#define SBX_DOCKER_FOLDERS 3
#define SBX_DOCKER_WORKSPACE 0

/*
 * A container from the call that creates it to its sandbox-init that waits for
 * filter and payload, and what we hold of it then. It is made for a run, or
 * ahead for a slot of the pool; the owner embeds it.
 */
struct sbx_docker_box {
    enum sbx_docker_step step;
    uint32_t place;             /* of the owner who makes it, see sbx_docker_box_at() */
    uint32_t generation;        /* counts boxes of this owner: a late answer is known as such */
    struct sbx_docker_run *run; /* the owner; NULL: a slot of the pool */
    const char *image;          /* borrowed: of struct sbx_docker */
    struct sbx_limits limits;
    char container[SBX_CONTAINER_ID_SIZE]; /* "": none yet */
    int attach_fd;
    bool is_attach_asked;               /* else it still connects */
    pid_t pid;                          /* likewise */
    int pidfd;                          /* of the container's pid 1; -1 where it is read inside */
    int folder_fds[SBX_DOCKER_FOLDERS]; /* which the fds keep when the container is gone; -1 too */
    struct sbx_cgroup group;
    bool has_group;
    /* Of one that a session has, see session.h. */
    bool is_kept;     /* it has had a run */
    bool is_frozen;   /* everybody in it, between two of them */
    bool must_renew;  /* the interpreter that waits in it is not to be used any more */
    uint64_t waiting; /* processes that do, stopped */
    /* Of one that waits in the pool. */
    struct sbx_cgroup_usage idle; /* what its counters said when it began to wait */
    struct sbx_relay relay;       /* waits as well; the run's once it is handed out */
};

/* True when the process has ended, whether or not that was told. */
bool sbx_docker_has_ended(int pidfd);

/* Once per owner. */
void sbx_docker_box_init(struct sbx_docker_box *box, uint32_t place, struct sbx_docker_run *run);

/*
 * Makes it. The end comes to the owner: sbx_docker_run_on_made() or
 * sbx_docker_pool_on_made(), or else one of the _on_not_made(), which may be called before this
 * returns.
 */
void sbx_docker_box_begin(struct sbx_docker *docker, struct sbx_docker_box *box, const char *image,
                          const struct sbx_limits *limits);

/* Something about the request to attach: connected, an answer, or a part of one. */
void sbx_docker_box_on_attach(struct sbx_docker *docker, struct sbx_docker_box *box);

/*
 * Holds everybody in it where he is, or lets them go on; see sbx_cgroup_freeze(). Returns 0 or
 * -errno. Where groups cannot be frozen this is 0: its processes are stopped, and can have
 * themselves woken.
 */
int sbx_docker_box_freeze(struct sbx_docker_box *box, bool is_frozen);

/* SIGKILL to its pid 1, which ends everybody in it. Safe to repeat. */
void sbx_docker_box_kill(struct sbx_docker_box *box);

/* Ends whatever it is, closes the fds and hands the container to the wreckage. Safe to repeat. */
void sbx_docker_box_drop(struct sbx_docker *docker, struct sbx_docker_box *box);

/* A made box gets another owner; `from` is as after a drop. */
void sbx_docker_box_move(struct sbx_docker *docker, struct sbx_docker_box *from,
                         struct sbx_docker_box *to);
