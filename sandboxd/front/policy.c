/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/front/policy.h"

#include "common/buf.h"
#include "common/unconst.h"
#include "sandboxd/front/limits.h"
#include "sandboxd/front/request.h"
#include "sandboxd/runtimes/table.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define TEXT_MAX (16U << 10)

/* Controls without a number of their own. */
static const char *const fixed_details[SBX_CONTROL_COUNT] = {
    [SBX_CONTROL_NETWORK] = "own empty network namespace, only lo",
    [SBX_CONTROL_SWAP] = "counted together with memory",
    [SBX_CONTROL_NO_NEW_PRIVS] = "set before the program starts",
    [SBX_CONTROL_CAPABILITIES] = "all five sets are empty",
    [SBX_CONTROL_USER] = "1000:1000, mapped to host ids of no other user",
    [SBX_CONTROL_ROOTFS] = "read-only, the host's /usr",
    [SBX_CONTROL_SECCOMP] = "allow-list; unknown calls get ENOSYS",
    [SBX_CONTROL_PROC] = "own pid namespace; nothing beyond the own processes",
    [SBX_CONTROL_DEV] = "null zero full random urandom",
    [SBX_CONTROL_IPC] = "own namespace",
};

/* The same in a container; NULL: as above. */
static const char *const container_details[SBX_CONTROL_COUNT] = {
    [SBX_CONTROL_USER] = "1000:1000, which are ids of the engine's host too",
    [SBX_CONTROL_ROOTFS] = "read-only, the image",
    [SBX_CONTROL_SECCOMP] = ("the engine's profile and an exact filter, of one allow-list; unknown "
                             "calls get ENOSYS"),
    [SBX_CONTROL_PROC] =
        "own pid namespace; /proc and /sys covered where they speak of the machine",
    [SBX_CONTROL_DEV] = "the engine's standard devices",
};

/* What `--rootless` leaves of a control; NULL: what it is else. */
static const char *rootless_detail(uint32_t control, const struct sbx_msg_hello *hello)
{
    if (hello->backend != CRISOL__SANDBOX__V1__BACKEND__BACKEND_NATIVE ||
        hello->controls[control] != SBX_PARTIAL)
        return NULL;
    switch (control) {
    case SBX_CONTROL_MEMORY:
        return "looked at every 10 ms, then all is killed: more can be had in between";
    case SBX_CONTROL_SWAP:
        return "counted together with memory, as that is";
    case SBX_CONTROL_CPU_TIME:
        return "looked at every 10 ms; children that nobody waits for take theirs along";
    case SBX_CONTROL_PIDS:
        return "by RLIMIT_NPROC; that it was met is inferred from the number";
    case SBX_CONTROL_ROOTFS:
        return "read-only; read-only input files are the program's own";
    case SBX_CONTROL_USER:
        return "1000:1000 inside; on the host, for all sandboxes, the user who started sandboxd";
    default:
        return NULL;
    }
}

static const char *fixed_detail(uint32_t control, const struct sbx_msg_hello *hello,
                                bool is_container, bool has_own_root)
{
    const char *text = fixed_details[control];
    const bool is_partial = hello->controls[control] == SBX_PARTIAL;

    if (has_own_root && control == SBX_CONTROL_ROOTFS && !is_partial)
        return "read-only, the runtime's own; rootfs_digest is its sha256";
    if (hello->is_image_root && control == SBX_CONTROL_ROOTFS)
        return "read-only, an image's folder";
    if (is_container && control == SBX_CONTROL_ROOTFS && is_partial)
        return "read-only, the image; read-only input files are the program's own";
    if (is_container && container_details[control])
        text = container_details[control];
    return text ? text : "";
}

static void describe(uint32_t control, const struct sbx_limits *limits,
                     const struct sbx_msg_hello *hello, bool has_own_root, char *text)
{
    bool is_container = hello->backend == CRISOL__SANDBOX__V1__BACKEND__BACKEND_DOCKER;
    const uint64_t *value = limits->value;
    const size_t size = SBX_CONTROL_DETAIL_MAX;

    switch (control) {
    case SBX_CONTROL_MEMORY:
        (void)snprintf(text, size, "%" PRIu64 " bytes; one kill for memory ends the run",
                       value[SBX_LIMIT_MEMORY]);
        break;
    case SBX_CONTROL_CPU:
        (void)snprintf(text, size, "%" PRIu64 " thousandths of one core",
                       value[SBX_LIMIT_CPU_MILLICORES]);
        break;
    case SBX_CONTROL_PIDS:
        (void)snprintf(text, size, "%" PRIu64 " processes and threads", value[SBX_LIMIT_PROCESSES]);
        break;
    case SBX_CONTROL_WALL_TIME:
        (void)snprintf(text, size, "%" PRIu64 " ms, then everything is killed%s",
                       value[SBX_LIMIT_WALL_TIME],
                       hello->controls[control] == SBX_PARTIAL
                           ? "; between two calls of a sandbox an interpreter can wake itself"
                           : "");
        break;
    case SBX_CONTROL_CPU_TIME:
        (void)snprintf(text, size, "%" PRIu64 " ms of all processes together",
                       value[SBX_LIMIT_CPU_TIME]);
        break;
    case SBX_CONTROL_TMPFS:
        (void)snprintf(text, size, "%" PRIu64 " bytes and %" PRIu64 " inodes%s",
                       value[SBX_LIMIT_WORKSPACE_BYTES], value[SBX_LIMIT_WORKSPACE_INODES],
                       is_container ? ": 1/2 /workspace, 3/8 /tmp, 1/8 /dev/shm"
                                    : " for /workspace, /tmp, /dev/shm");
        break;
    case SBX_CONTROL_OUTPUT:
        (void)snprintf(text, size, "%" PRIu64 " bytes per stream", value[SBX_LIMIT_OUTPUT]);
        break;
    case SBX_CONTROL_RLIMITS:
        (void)snprintf(
            text, size, "open files %" PRIu64 ", file size %" PRIu64 ", stack %" PRIu64 ", core 0",
            value[SBX_LIMIT_OPEN_FILES], value[SBX_LIMIT_FILE_SIZE], value[SBX_LIMIT_STACK]);
        break;
    default:
        (void)snprintf(text, size, "%s", fixed_detail(control, hello, is_container, has_own_root));
        break;
    }
}

/* Around details that are there. */
static void list_controls(struct sbx_controls *controls, const struct sbx_msg_hello *hello)
{
    for (uint32_t i = 0; i < SBX_CONTROL_COUNT; i++) {
        Crisol__Sandbox__V1__Control *control = &controls->items[i];

        crisol__sandbox__v1__control__init(control);
        control->name = cr_unconst(sbx_control_name(i)); /* protobuf-c knows no const */
        control->enforcement = (Crisol__Sandbox__V1__Enforcement)hello->controls[i];
        control->detail = controls->details[i];
        controls->list[i] = control;
    }
}

static void fill_details(struct sbx_controls *controls, const struct sbx_msg_hello *hello,
                         const struct sbx_limits *limits, const struct sbx_runtime *runtime)
{
    for (uint32_t i = 0; i < SBX_CONTROL_COUNT; i++) {
        if (hello->controls[i] == SBX_GAP)
            (void)snprintf(controls->details[i], SBX_CONTROL_DETAIL_MAX,
                           "missing on this host; accepted by the operator");
        else if (rootless_detail(i, hello))
            (void)snprintf(controls->details[i], SBX_CONTROL_DETAIL_MAX, "%s",
                           rootless_detail(i, hello));
        else
            describe(i, limits, hello, runtime && runtime->root[0], controls->details[i]);
    }
}

void sbx_controls_fill(struct sbx_controls *controls, const struct sbx_msg_hello *hello,
                       const struct sbx_limits *limits, const struct sbx_runtime *runtime)
{
    fill_details(controls, hello, limits, runtime);
    list_controls(controls, hello);
}

/* The digest is over a text of our own, so that it does not depend on how a message is packed. */
static void fill_digest(struct sbx_policy *policy, const struct sbx_request *request,
                        const struct sbx_msg_hello *hello)
{
    CR_AUTO_BUF struct cr_buf text;
    int r;

    cr_buf_init(&text, TEXT_MAX);
    r = cr_buf_printf(&text, "backend %" PRIu32 "\nruntime %s %s\n", hello->backend,
                      policy->message.runtime, policy->runtime_digest);
    for (uint32_t i = 0; r == 0 && i < SBX_LIMIT_COUNT; i++)
        r = cr_buf_printf(&text, "limit %s %" PRIu64 "\n", sbx_limit_name(i),
                          request->limits.value[i]);
    for (size_t i = 0; r == 0 && i < SBX_CONTROL_COUNT; i++)
        r = cr_buf_printf(&text, "control %s %d %s\n", policy->controls.items[i].name,
                          (int)policy->controls.items[i].enforcement, policy->controls.details[i]);
    if (r == 0)
        sbx_digest(text.data, text.size, policy->digest);
}

static bool is_same(const struct sbx_policy_memo *memo, const struct sbx_request *request,
                    const struct sbx_msg_hello *hello)
{
    return memo->is_set && memo->runtime == request->runtime &&
           memcmp(&memo->limits, &request->limits, sizeof(memo->limits)) == 0 &&
           memcmp(&memo->hello, hello, sizeof(memo->hello)) == 0;
}

static void remember(struct sbx_policy_memo *memo, const struct sbx_policy *policy,
                     const struct sbx_request *request, const struct sbx_msg_hello *hello)
{
    memo->is_set = true;
    memo->runtime = request->runtime;
    memo->limits = request->limits;
    memcpy(&memo->hello, hello, sizeof(memo->hello)); /* what is compared, to the byte */
    memcpy(memo->details, policy->controls.details, sizeof(memo->details));
    memcpy(memo->digest, policy->digest, sizeof(memo->digest));
    memcpy(memo->runtime_digest, policy->runtime_digest, sizeof(memo->runtime_digest));
}

static void recall(const struct sbx_policy_memo *memo, struct sbx_policy *policy)
{
    memcpy(policy->controls.details, memo->details, sizeof(memo->details));
    memcpy(policy->digest, memo->digest, sizeof(memo->digest));
    memcpy(policy->runtime_digest, memo->runtime_digest, sizeof(memo->runtime_digest));
}

void sbx_policy_fill(struct sbx_policy *policy, const struct sbx_request *request,
                     const struct sbx_msg_hello *hello, struct sbx_policy_memo *memo)
{
    const bool is_known = memo && is_same(memo, request, hello);
    const struct sbx_runtime *runtime = sbx_request_runtime(request);
    Crisol__Sandbox__V1__EffectivePolicy *message = &policy->message;

    *policy = (struct sbx_policy){0};
    crisol__sandbox__v1__effective_policy__init(message);
    crisol__sandbox__v1__limits__init(&policy->limits);
    sbx_limits_write(&request->limits, &policy->limits);
    message->limits = &policy->limits;
    for (uint32_t i = 0; i < SBX_LIMIT_COUNT; i++) {
        if (request->requested & (UINT32_C(1) << i))
            policy->requested[message->n_requested++] = cr_unconst(sbx_limit_name(i));
    }
    message->requested = policy->requested;
    if (is_known)
        recall(memo, policy);
    else
        fill_details(&policy->controls, hello, &request->limits, runtime);
    list_controls(&policy->controls, hello);
    message->n_controls = SBX_CONTROL_COUNT;
    message->controls = policy->controls.list;
    message->backend = (Crisol__Sandbox__V1__Backend)hello->backend;
    message->runtime = cr_unconst(runtime->name);
    message->runtime_digest = policy->runtime_digest;
    message->rootfs_digest = cr_unconst(runtime->root);
    message->digest = policy->digest;
    if (is_known)
        return;
    sbx_digest_runtime(runtime, policy->runtime_digest);
    fill_digest(policy, request, hello);
    if (memo)
        remember(memo, policy, request, hello);
}
