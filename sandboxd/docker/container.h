/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sys/types.h>

struct cr_buf;
struct cr_err;
struct sbx_limits;

/* What every container of this process has in common. All borrowed. */
struct sbx_container_plan {
    const char *image;
    const char *instance; /* value of the label that makes a container ours */
    const char *runtime;  /* of the engine: "runc", "runsc"; NULL: its default */
    const char *seccomp;  /* profile as JSON */
    bool is_inside;       /* sandbox-init reads the box itself; outlives its end, to be asked why */
    uint32_t left_out;    /* a bit for each enum sbx_control: see backend/weaken.h; 0: none */
};

#define SBX_CONTAINER_LABEL "crisol.instance"
#define SBX_CONTAINER_ID_SIZE 65 /* 64 hexadecimal digits and the NUL */

/* Shares of the workspace limit, because the engine has no tmpfs that is bound three times. */
struct sbx_container_shares {
    uint64_t workspace;
    uint64_t tmp;
    uint64_t shm;
};

/* Pure. The shares of `total` add up to it. */
struct sbx_container_shares sbx_container_share(uint64_t total);

/* The body of POST /containers/create: the whole policy for one run. Pure. */
int sbx_container_body(const struct sbx_container_plan *plan, const struct sbx_limits *limits,
                       struct cr_buf *ret_json, struct cr_err *err);

/*
 * Compares what GET /containers/{id}/json says with what was asked for: every
 * value of the policy must be there. -EIO names the first that is not. Pure.
 * *ret_pid is the host's number of the container's pid 1, 0 when it does not run.
 */
int sbx_container_check(const struct sbx_container_plan *plan, const struct sbx_limits *limits,
                        const char *inspected, pid_t *ret_pid, struct cr_err *err);

/* Of a container that has ended, as GET /containers/{id}/json says it. */
struct sbx_container_end {
    bool is_oom;      /* the kernel killed in it for memory; see the next function */
    int64_t finish_s; /* by the engine's clock, since 1970 */
};

/* Returns 0 or -EPROTO. Pure. */
int sbx_container_read_end(const char *inspected, struct sbx_container_end *ret_end);

/*
 * The path of the engine's events that say so of a container, up to 2 s
 * behind its end: an engine that hears of the end before it hears of the kill
 * says the latter nowhere else. The answer comes when that time has passed.
 * Returns 0 or -ENAMETOOLONG; SBX_CONTAINER_OOM_PATH_SIZE is enough. Pure.
 */
#define SBX_CONTAINER_OOM_PATH_SIZE 256
int sbx_container_oom_path(const char *id, int64_t finish_s, char *ret_path, size_t size);

/* True when such an event is in the answer. Pure. */
bool sbx_container_has_oom(const char *events);

/* The "Id" of an answer, checked to be 64 hexadecimal digits. Returns 0 or -EPROTO. Pure. */
int sbx_container_id(const char *answer, char ret_id[SBX_CONTAINER_ID_SIZE]);
