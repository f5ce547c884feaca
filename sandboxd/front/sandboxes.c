/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/front/sandboxes.h"

#include "common/clock.h"
#include "common/err.h"
#include "common/log.h"
#include "rpc/status.h"
#include "sandboxd/front/digest.h"
#include "sandboxd/runtimes/table.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sys/random.h>

#define ENDED_MAX 1024U /* to say of them what became of them */
#define ENDED_KEEP_NS (600 * CR_NS_PER_S)
#define BUSY_RETRY_MS 200
#define FULL_RETRY_MS 5000

/* Why one has ended, for a person and for a program. */
static const struct {
    const char *reason;
    const char *text;
} ends[] = {
    [SBX_CLOSED_ASKED] = {"SANDBOX_DELETED", "it was deleted"},
    [SBX_CLOSED_IDLE] = {"SANDBOX_IDLE", "nobody used it for its idle_time_ms"},
    [SBX_CLOSED_LIFE] = {"SANDBOX_EXPIRED", "its life_time_ms is over"},
    [SBX_CLOSED_FAILED] = {"SANDBOX_FAILED", "the backend could not make it"},
    [SBX_CLOSED_LOST] = {"SANDBOX_LOST", "its container was ended from outside"},
    [SBX_SANDBOX_LOST] = {"SANDBOX_LOST", "the backend that had it ended; its files are gone"},
};

int sbx_sandboxes_init(struct sbx_sandboxes *list, uint32_t per_caller, struct cr_err *err)
{
    uint32_t instance = 0;

    *list = (struct sbx_sandboxes){.per_caller = per_caller};
    if (getrandom(&instance, sizeof(instance), 0) != (ssize_t)sizeof(instance))
        return cr_err_sys(err, errno, "draw a number for sandboxes");
    (void)snprintf(list->instance, sizeof(list->instance), "%08x", instance);
    (void)pthread_mutex_init(&list->lock, NULL); /* cannot fail with default attributes */
    return 0;
}

void sbx_sandboxes_done(struct sbx_sandboxes *list)
{
    while (list->first) {
        struct sbx_sandbox *sandbox = list->first;

        list->first = sandbox->next;
        free(sandbox);
    }
    (void)pthread_mutex_destroy(&list->lock);
}

/* With the lock. */
static void unref(struct sbx_sandbox *sandbox)
{
    if (--sandbox->refs == 0)
        free(sandbox);
}

static bool is_live(const struct sbx_sandbox *sandbox)
{
    return sandbox->ended == 0 && !sandbox->is_deleted;
}

/* Forgets those that ended long ago, and the oldest when there are too many. With the lock. */
static void forget_old(struct sbx_sandboxes *list)
{
    const int64_t now_ns = cr_clock_mono_ns();
    uint32_t left = 0;

    for (struct sbx_sandbox **slot = &list->first; *slot;) {
        struct sbx_sandbox *sandbox = *slot; /* the newest come first */

        if (sandbox->ended == 0 ||
            (left < ENDED_MAX && now_ns - sandbox->ended_ns < ENDED_KEEP_NS)) {
            left += sandbox->ended != 0;
            slot = &sandbox->next;
            continue;
        }
        *slot = sandbox->next;
        unref(sandbox);
    }
}

static void end(struct sbx_sandbox *sandbox, uint32_t reason)
{
    sandbox->ended = reason;
    sandbox->ended_ns = cr_clock_mono_ns();
    sandbox->is_open_owed = false;
    sandbox->is_close_owed = false;
}

/* ---- memory ---- */

/* Its files, and the interpreter that waits. */
static uint64_t memory_of(uint32_t runtime, const struct sbx_limits *limits)
{
    size_t count;
    uint64_t files = limits->value[SBX_LIMIT_WORKSPACE_BYTES];

    return sbx_runtimes(&count)[runtime].cells ? files + limits->value[SBX_LIMIT_MEMORY] : files;
}

static uint64_t memory_of_all(const struct sbx_sandboxes *list)
{
    uint64_t total = 0;

    for (const struct sbx_sandbox *sandbox = list->first; sandbox; sandbox = sandbox->next) {
        if (sandbox->ended == 0)
            total += memory_of(sandbox->runtime, &sandbox->limits);
    }
    return total;
}

uint64_t sbx_sandboxes_memory(struct sbx_sandboxes *list)
{
    uint64_t total;

    (void)pthread_mutex_lock(&list->lock);
    total = memory_of_all(list);
    (void)pthread_mutex_unlock(&list->lock);
    return total;
}

/* ---- what is told of one ---- */

static uint32_t left_ms(int64_t from_ns, uint32_t span_ms)
{
    const int64_t left = from_ns / CR_NS_PER_MS + span_ms - cr_clock_mono_ns() / CR_NS_PER_MS;

    return left > 0 ? (uint32_t)left : 0;
}

static void tell(const struct sbx_sandbox *sandbox, struct sbx_sandbox_info *ret_info)
{
    const uint32_t life_ms = left_ms(sandbox->created_ns, sandbox->life_ms);
    const uint32_t idle_ms =
        sandbox->is_busy ? sandbox->idle_ms : left_ms(sandbox->used_ns, sandbox->idle_ms);

    *ret_info = (struct sbx_sandbox_info){
        .runtime = sandbox->runtime,
        .limits = sandbox->limits,
        .remaining_ms = life_ms,
        .idle_remaining_ms = idle_ms < life_ms ? idle_ms : life_ms,
        .calls = sandbox->calls,
        .is_busy = sandbox->is_busy,
    };
    memcpy(ret_info->id, sandbox->id, sizeof(ret_info->id));
}

size_t sbx_sandboxes_list(struct sbx_sandboxes *list, const char *caller,
                          struct sbx_sandbox_info *ret_infos, size_t room)
{
    size_t count = 0;

    (void)pthread_mutex_lock(&list->lock);
    for (const struct sbx_sandbox *at = list->first; at && count < room; at = at->next) {
        if (is_live(at) && strcmp(at->caller, caller) == 0)
            tell(at, &ret_infos[count++]);
    }
    (void)pthread_mutex_unlock(&list->lock);
    return count;
}

/* ---- making ---- */

static int refuse(struct rpc_status *status, const char *reason, const char *text)
{
    rpc_status_set(status, RPC_RESOURCE_EXHAUSTED, "%s", text);
    status->retry_after_ms = FULL_RETRY_MS;
    (void)snprintf(status->reason, sizeof(status->reason), "%s", reason);
    return -EINVAL;
}

/* Those that were deleted count until the backend says that they are gone. */
static int check_room(const struct sbx_sandboxes *list, const struct sbx_sandbox_plan *plan,
                      const struct sbx_msg_hello *hello, struct rpc_status *status)
{
    const uint64_t memory = memory_of_all(list) + memory_of(plan->runtime, &plan->limits);
    uint32_t all = 0;
    uint32_t own = 0;

    for (const struct sbx_sandbox *at = list->first; at; at = at->next) {
        all += at->ended == 0;
        own += at->ended == 0 && strcmp(at->caller, plan->caller) == 0;
    }
    if (own >= list->per_caller)
        return refuse(status, "SANDBOX_QUOTA",
                      "you have as many sandboxes as one caller may have; delete one");
    if (all >= hello->sessions)
        return refuse(status, "SANDBOXES_FULL",
                      "there are as many sandboxes as this service may have; try again later");
    if (hello->memory_bytes > 0 && memory > hello->memory_bytes / 2)
        return refuse(status, "SANDBOX_MEMORY",
                      "the sandboxes that live have all the memory that is for them; try again "
                      "later, or with less memory_bytes and workspace_bytes");
    return 0;
}

static int draw(const struct sbx_sandboxes *list, struct sbx_sandbox *sandbox)
{
    uint8_t bytes[12];

    if (getrandom(bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes))
        return -EIO;
    (void)snprintf(sandbox->id, sizeof(sandbox->id), "%s", list->instance);
    for (size_t i = 0; i < sizeof(bytes); i++)
        (void)snprintf(sandbox->id + 8 + 2 * i, 3, "%02x", bytes[i]);
    return 0;
}

static int add(struct sbx_sandboxes *list, const struct sbx_sandbox_plan *plan,
               struct sbx_sandbox **ret_sandbox)
{
    struct sbx_sandbox *sandbox = calloc(1, sizeof(*sandbox));

    if (!sandbox || draw(list, sandbox) < 0) {
        free(sandbox);
        return -ENOMEM;
    }
    sandbox->list = list;
    sandbox->refs = 1;
    (void)snprintf(sandbox->caller, sizeof(sandbox->caller), "%s", plan->caller);
    sandbox->number = ++list->last_number | SBX_SANDBOX_NUMBER_BIT;
    sandbox->runtime = plan->runtime;
    sandbox->limits = plan->limits;
    sandbox->requested = plan->requested;
    sandbox->idle_ms = plan->idle_ms;
    sandbox->life_ms = plan->life_ms;
    sandbox->created_ns = cr_clock_mono_ns();
    sandbox->used_ns = sandbox->created_ns;
    sandbox->is_open_owed = true;
    sandbox->next = list->first;
    list->first = sandbox;
    *ret_sandbox = sandbox;
    return 0;
}

int sbx_sandboxes_create(struct sbx_sandboxes *list, const struct sbx_sandbox_plan *plan,
                         const struct sbx_msg_hello *hello, struct sbx_sandbox_info *ret_info,
                         struct rpc_status *status)
{
    struct sbx_sandbox *sandbox;
    int r;

    (void)pthread_mutex_lock(&list->lock);
    forget_old(list);
    r = check_room(list, plan, hello, status);
    if (r == 0 && add(list, plan, &sandbox) < 0)
        r = refuse(status, "", "the service is out of memory; try again later");
    if (r == 0)
        tell(sandbox, ret_info);
    (void)pthread_mutex_unlock(&list->lock);
    return r;
}

/* ---- calls ---- */

/* With the lock. */
static struct sbx_sandbox *find(const struct sbx_sandboxes *list, const char *caller,
                                const char *id)
{
    for (struct sbx_sandbox *at = list->first; at; at = at->next) {
        if (strcmp(at->id, id) == 0)
            return strcmp(at->caller, caller) == 0 ? at : NULL;
    }
    return NULL;
}

static void say_end(uint32_t reason, struct rpc_status *status)
{
    rpc_status_set(status, RPC_NOT_FOUND, "sandbox_id: this sandbox has ended: %s",
                   ends[reason].text);
    (void)snprintf(status->reason, sizeof(status->reason), "%s", ends[reason].reason);
}

/* What another caller has is as unknown as what nobody has. */
static void say_unknown(const struct sbx_sandboxes *list, const char *id, struct rpc_status *status)
{
    const bool is_other_start = strlen(id) == SBX_EXECUTION_ID_SIZE - 1 &&
                                strncmp(id, list->instance, strlen(list->instance)) != 0;

    rpc_status_set(status, RPC_NOT_FOUND,
                   is_other_start ? "sandbox_id: no such sandbox; sandboxes do not survive a "
                                    "restart of the service, nor do they move to another one"
                                  : "sandbox_id: you have no such sandbox");
    (void)snprintf(status->reason, sizeof(status->reason), "%s",
                   is_other_start ? "SANDBOX_LOST" : "SANDBOX_NOT_FOUND");
}

static void say_busy(struct rpc_status *status)
{
    rpc_status_set(status, RPC_ABORTED,
                   "sandbox_id: another call is in this sandbox; one at a time");
    status->retry_after_ms = BUSY_RETRY_MS;
    (void)snprintf(status->reason, sizeof(status->reason), "SANDBOX_BUSY");
}

struct sbx_sandbox *sbx_sandboxes_enter(struct sbx_sandboxes *list, const char *caller,
                                        const char *id, struct rpc_status *status)
{
    struct sbx_sandbox *sandbox;

    (void)pthread_mutex_lock(&list->lock);
    sandbox = find(list, caller, id);
    if (!sandbox) {
        say_unknown(list, id, status);
    } else if (!is_live(sandbox)) {
        say_end(sandbox->is_deleted ? SBX_CLOSED_ASKED : sandbox->ended, status);
        sandbox = NULL;
    } else if (sandbox->is_busy) {
        say_busy(status);
        sandbox = NULL;
    } else {
        sandbox->is_busy = true;
        sandbox->refs++;
        sandbox->calls++;
        sandbox->used_ns = cr_clock_mono_ns();
    }
    (void)pthread_mutex_unlock(&list->lock);
    return sandbox;
}

struct sbx_sandbox *sbx_sandbox_leave(struct sbx_sandbox *sandbox)
{
    struct sbx_sandboxes *list = sandbox ? sandbox->list : NULL;

    if (!sandbox)
        return NULL;
    (void)pthread_mutex_lock(&list->lock);
    sandbox->is_busy = false;
    sandbox->used_ns = cr_clock_mono_ns();
    unref(sandbox);
    (void)pthread_mutex_unlock(&list->lock);
    return NULL;
}

bool sbx_sandboxes_delete(struct sbx_sandboxes *list, const char *caller, const char *id)
{
    struct sbx_sandbox *sandbox;
    bool found;

    (void)pthread_mutex_lock(&list->lock);
    sandbox = find(list, caller, id);
    found = sandbox && is_live(sandbox);
    if (found) {
        sandbox->is_deleted = true;
        sandbox->is_close_owed = true;
    }
    (void)pthread_mutex_unlock(&list->lock);
    return found;
}

/* ---- the backend ---- */

static int send_owed(struct sbx_sandbox *sandbox, int (*send)(void *user, const union sbx_msg *msg),
                     void *user)
{
    union sbx_msg msg;
    int r = 0;

    if (sandbox->is_open_owed) {
        sbx_msg_init(&msg, SBX_MSG_OPEN, sandbox->number);
        msg.open.idle_ms = sandbox->idle_ms;
        msg.open.life_ms = sandbox->life_ms;
        msg.open.caller = sbx_digest_caller(sandbox->caller);
        msg.open.limits = sandbox->limits;
        r = send(user, &msg);
        sandbox->is_open_owed = r == -EAGAIN; /* else the end of the wire takes all of them */
    }
    if (r == 0 && sandbox->is_close_owed) {
        sbx_msg_init(&msg, SBX_MSG_CLOSE, sandbox->number);
        r = send(user, &msg);
        sandbox->is_close_owed = r == -EAGAIN;
    }
    return r;
}

int sbx_sandboxes_flush(struct sbx_sandboxes *list,
                        int (*send)(void *user, const union sbx_msg *msg), void *user)
{
    int r = 0;

    (void)pthread_mutex_lock(&list->lock);
    for (struct sbx_sandbox *at = list->first; at && r == 0; at = at->next)
        r = send_owed(at, send, user);
    (void)pthread_mutex_unlock(&list->lock);
    return r;
}

int sbx_sandboxes_closed(struct sbx_sandboxes *list, uint64_t number, uint32_t reason)
{
    int r = -EPROTO;

    (void)pthread_mutex_lock(&list->lock);
    for (struct sbx_sandbox *at = list->first; at; at = at->next) {
        if (at->number != number || at->ended != 0)
            continue;
        end(at, reason);
        cr_log_info("sandbox ended sandbox=%s caller=%s calls=%u reason=%s", at->id, at->caller,
                    at->calls, ends[reason].reason);
        r = 0;
    }
    forget_old(list);
    (void)pthread_mutex_unlock(&list->lock);
    return r;
}

void sbx_sandboxes_lose(struct sbx_sandboxes *list)
{
    uint32_t lost = 0;

    (void)pthread_mutex_lock(&list->lock);
    for (struct sbx_sandbox *at = list->first; at; at = at->next) {
        if (at->ended != 0)
            continue;
        end(at, at->is_deleted ? SBX_CLOSED_ASKED : SBX_SANDBOX_LOST);
        lost++;
    }
    (void)pthread_mutex_unlock(&list->lock);
    if (lost > 0)
        cr_log_warn("sandboxes are lost with the backend count=%u", lost);
}
