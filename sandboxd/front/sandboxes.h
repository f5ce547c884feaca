/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "sandboxd/front/execution.h"
#include "sandboxd/wire/msg.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rpc_status;

/*
 * The sandboxes that live on, as the front knows them: whose each is, and what
 * became of those that ended. The backend has them, and their clocks; this is
 * told of their end. Everything but the fields that never change is guarded by
 * the lock of the list.
 */
struct sbx_sandbox {
    struct sbx_sandbox *next;
    struct sbx_sandboxes *list; /* borrowed: outlives it */
    uint32_t refs;              /* the list's, and that of the call that is in it */

    /* Constant. */
    char id[SBX_EXECUTION_ID_SIZE];
    char caller[64];
    uint64_t number; /* on the wire */
    uint32_t runtime;
    struct sbx_limits limits;
    uint32_t requested; /* bit per limit that came from the request */
    uint32_t idle_ms;
    uint32_t life_ms;
    int64_t created_ns;

    int64_t used_ns; /* begin or end of the last call */
    uint32_t calls;  /* that began in it */
    bool is_busy;    /* a call is in it */
    bool is_open_owed;
    bool is_close_owed;
    bool is_deleted; /* by its caller; the backend may still have it */
    uint32_t ended;  /* enum sbx_closed, or SBX_SANDBOX_LOST; 0: the backend has it */
    int64_t ended_ns;
};

#define SBX_SANDBOX_LOST SBX_CLOSED_END            /* with the backend */
#define SBX_SANDBOX_NUMBER_BIT (UINT64_C(1) << 63) /* no run has it */

struct sbx_sandboxes {
    pthread_mutex_t lock; /* guards everything below, and what the sandboxes say */
    struct sbx_sandbox *first;
    uint32_t per_caller; /* that live, at most */
    uint64_t last_number;
    char instance[9]; /* the first 8 digits of each id: whether this process gave it */
};

/* Returns 0 or -errno. */
int sbx_sandboxes_init(struct sbx_sandboxes *list, uint32_t per_caller, struct cr_err *err);

/* Every call must have ended. */
void sbx_sandboxes_done(struct sbx_sandboxes *list);

/* ---- the calls; any thread ---- */

/* What a new one is to be. */
struct sbx_sandbox_plan {
    const char *caller;
    uint32_t runtime;
    struct sbx_limits limits;
    uint32_t requested;
    uint32_t idle_ms;
    uint32_t life_ms;
};

/* What is told of one. */
struct sbx_sandbox_info {
    char id[SBX_EXECUTION_ID_SIZE];
    uint32_t runtime;
    struct sbx_limits limits;
    uint32_t remaining_ms;      /* of its life */
    uint32_t idle_remaining_ms; /* until it ends without a call */
    uint32_t calls;
    bool is_busy;
};

/*
 * Makes one; the backend is told by sbx_sandboxes_flush(). Returns 0, or
 * -EINVAL with `status` filled in: RESOURCE_EXHAUSTED by the caller's or
 * everybody's number, or by the memory that those that live may have.
 */
int sbx_sandboxes_create(struct sbx_sandboxes *list, const struct sbx_sandbox_plan *plan,
                         const struct sbx_msg_hello *hello, struct sbx_sandbox_info *ret_info,
                         struct rpc_status *status);

/*
 * Lets a call of its caller in, alone. Returns the sandbox, to be given back
 * with sbx_sandbox_leave(), or NULL with `status` filled in: NOT_FOUND with
 * the reason (SANDBOX_NOT_FOUND for one of another caller, too), ABORTED while
 * another call is in it.
 */
struct sbx_sandbox *sbx_sandboxes_enter(struct sbx_sandboxes *list, const char *caller,
                                        const char *id, struct rpc_status *status);

/* The call is over. NULL is allowed; always returns NULL. */
struct sbx_sandbox *sbx_sandbox_leave(struct sbx_sandbox *sandbox);

/* Ends it, and the call in it. Returns whether it lived. */
bool sbx_sandboxes_delete(struct sbx_sandboxes *list, const char *caller, const char *id);

/* Those of a caller that live. Returns how many are in ret_infos. */
size_t sbx_sandboxes_list(struct sbx_sandboxes *list, const char *caller,
                          struct sbx_sandbox_info *ret_infos, size_t room);

/* ---- the stream thread ---- */

/* Sends what the backend is owed. Returns 0, or what `send` returned. */
int sbx_sandboxes_flush(struct sbx_sandboxes *list,
                        int (*send)(void *user, const union sbx_msg *msg), void *user);

/* The backend says that one is gone. Returns 0, or -EPROTO when there is no such one. */
int sbx_sandboxes_closed(struct sbx_sandboxes *list, uint64_t number, uint32_t reason);

/* The backend is gone, and with it all that it had. */
void sbx_sandboxes_lose(struct sbx_sandboxes *list);

/* Memory that they may have between calls. */
uint64_t sbx_sandboxes_memory(struct sbx_sandboxes *list);
