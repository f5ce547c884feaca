/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "sandboxd/backend/cgroup.h"
#include "sandboxd/backend/verdict.h"
#include "sandboxd/docker/container.h"
#include "sandboxd/docker/relay.h"
#include "sandboxd/wire/boxctl.h"
#include "sandboxd/wire/msg.h"

#include <stdbool.h>
#include <stdint.h>

#include <sys/types.h>

struct sbx_docker;
struct sbx_engine_answer;

/*
 * One run, from RUN to RESULT, as a state machine: the only arbiter of what
 * happens to a program. Lives in a slot; everything it owns is released when
 * it becomes FREE again, but the container, which goes to the wreckage.
 */
enum sbx_docker_state {
    SBX_DOCKER_FREE,
    SBX_DOCKER_CREATING,
    SBX_DOCKER_ATTACHING, /* the request was sent: waits for the hijack */
    SBX_DOCKER_STARTING,
    SBX_DOCKER_INSPECTING, /* sandbox-init runs and waits: the policy is read back */
    SBX_DOCKER_PREPARING,  /* the files go in: waits for READY */
    SBX_DOCKER_RUNNING,    /* GO was sent: the clock runs */
    SBX_DOCKER_KILLING,    /* SIGKILL was sent: waits for the box and the relay */
    SBX_DOCKER_DRAINING,   /* EXITED was sent: waits for DRAINED and the collector */
    SBX_DOCKER_STATE_COUNT,
};

/* /workspace, /tmp, /dev/shm: each a tmpfs of its own. */
#define SBX_DOCKER_FOLDERS 3
#define SBX_DOCKER_WORKSPACE 0

struct sbx_docker_run {
    enum sbx_docker_state state;
    uint32_t slot;
    uint32_t generation; /* counts uses, so that a late event of an earlier run is known as such */
    uint64_t id;         /* the front's number */
    struct sbx_limits limits;
    int fds[SBX_RUN_FDS];                  /* as in RUN; -1 once handed on or closed */
    char container[SBX_CONTAINER_ID_SIZE]; /* "": none yet */
    int attach_fd;
    int box_pidfd; /* of the container's pid 1 */
    struct sbx_cgroup group;
    bool has_group;
    int folder_fds[SBX_DOCKER_FOLDERS]; /* which the fds keep when the container is gone */
    struct sbx_relay relay;
    pid_t collector_pid;
    int collector_pidfd;
    bool is_drained;
    bool is_lost; /* the box ended and neither we, nor a limit, nor the program was it */
    int64_t received_ns;
    int64_t go_ns; /* 0: GO was not sent */
    int64_t kill_ns;
    int64_t end_ns;
    int64_t dead_ns;
    int64_t collected_ns;
    int64_t deadline_ns; /* of the state */
    int64_t poll_ns;     /* next look at the counters; INT64_MAX: none */
    int64_t oom_until_ns;
    int64_t oom_poll_ns;
    struct sbx_cgroup_usage baseline; /* at GO */
    uint32_t leftovers;
    struct sbx_facts facts;
};

/* True when the table of the machine has that edge. Pure. */
bool sbx_docker_run_can_move(enum sbx_docker_state from, enum sbx_docker_state to);

/* Sets the fds to -1; once per slot. */
void sbx_docker_run_init(struct sbx_docker_run *run, uint32_t slot);

/* Takes the fds of a RUN that was admitted to this free slot. */
void sbx_docker_run_begin(struct sbx_docker *docker, struct sbx_docker_run *run,
                          const struct sbx_msg_run *msg, const int fds[SBX_RUN_FDS]);

/* Something happened. Each may end the run. */
void sbx_docker_run_on_attach(struct sbx_docker *docker, struct sbx_docker_run *run);
void sbx_docker_run_on_control(struct sbx_docker *docker, struct sbx_docker_run *run);
void sbx_docker_run_on_relay(struct sbx_docker *docker, struct sbx_docker_run *run);
void sbx_docker_run_on_box(struct sbx_docker *docker, struct sbx_docker_run *run);
void sbx_docker_run_on_oom(struct sbx_docker *docker, struct sbx_docker_run *run);
void sbx_docker_run_on_collector(struct sbx_docker *docker, struct sbx_docker_run *run);
void sbx_docker_run_on_time(struct sbx_docker *docker, struct sbx_docker_run *run, int64_t now_ns);

/* Messages of the front. _on_drained() returns -EPROTO in a state that does not allow it. */
void sbx_docker_run_on_cancel(struct sbx_docker *docker, struct sbx_docker_run *run);
void sbx_docker_run_on_output_limit(struct sbx_docker *docker, struct sbx_docker_run *run,
                                    const struct sbx_msg_output_limit *msg);
int sbx_docker_run_on_drained(struct sbx_docker *docker, struct sbx_docker_run *run,
                              const struct sbx_msg_drained *msg);

/* Ends it without an answer: the front, the supervisor or the engine is gone. */
void sbx_docker_run_abandon(struct sbx_docker *docker, struct sbx_docker_run *run);

/* When sbx_docker_run_on_time() wants to be called; INT64_MAX: never. */
int64_t sbx_docker_run_next_ns(const struct sbx_docker_run *run);
