/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/docker/container.h"

#include "common/auto.h"
#include "common/buf.h"
#include "common/err.h"
#include "sandboxd/backend/box_steps.h"
#include "sandboxd/backend/cgroup.h"
#include "sandboxd/docker/covers.h"
#include "sandboxd/docker/json.h"
#include "sandboxd/init/stream.h"
#include "sandboxd/wire/msg.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define USER "1000:1000"
#define ROOT_USER "0:0"
#define OOM_SCORE 500
#define MEMLOCK_BYTES (64U << 10)
#define PATH_MAX_JSON 128
#define OOM_EVENT_S 2 /* behind the end of a container; see container.h */

struct sbx_container_shares sbx_container_share(uint64_t total)
{
    struct sbx_container_shares shares = {.tmp = total / 8 * 3, .shm = total / 8};

    shares.workspace = total - shares.tmp - shares.shm;
    return shares;
}

static bool has(const struct sbx_container_plan *plan, enum sbx_control control)
{
    return (plan->left_out & UINT32_C(1) << control) == 0;
}

/* Without them it takes an init that has privileges to keep. */
static bool has_privilege_drop(const struct sbx_container_plan *plan)
{
    return has(plan, SBX_CONTROL_NO_NEW_PRIVS) && has(plan, SBX_CONTROL_CAPABILITIES);
}

/* Building: a failed allocation anywhere makes the whole NULL. */
struct builder {
    bool has_failed;
};

static cJSON *object(struct builder *builder, cJSON *parent, const char *key)
{
    cJSON *item = cJSON_AddObjectToObject(parent, key);

    builder->has_failed = builder->has_failed || !item;
    return item;
}

static void text(struct builder *builder, cJSON *parent, const char *key, const char *value)
{
    if (!cJSON_AddStringToObject(parent, key, value))
        builder->has_failed = true;
}

static void flag(struct builder *builder, cJSON *parent, const char *key, bool value)
{
    if (!cJSON_AddBoolToObject(parent, key, value))
        builder->has_failed = true;
}

/* Up to 2^53, which is far beyond every maximum. */
static void number(struct builder *builder, cJSON *parent, const char *key, uint64_t value)
{
    if (!cJSON_AddNumberToObject(parent, key, (double)value))
        builder->has_failed = true;
}

static void list(struct builder *builder, cJSON *parent, const char *key, const char *const *values)
{
    cJSON *array = cJSON_AddArrayToObject(parent, key);

    for (; array && *values; values++) {
        if (!cJSON_AddItemToArray(array, cJSON_CreateString(*values)))
            array = NULL;
    }
    builder->has_failed = builder->has_failed || !array;
}

static void tmpfs(struct builder *builder, cJSON *parent, const char *path, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

static void tmpfs(struct builder *builder, cJSON *parent, const char *path, const char *format, ...)
{
    char options[160];
    va_list values;

    va_start(values, format);
    (void)vsnprintf(options, sizeof(options), format, values);
    va_end(values);
    text(builder, parent, path, options);
}

static void add_ulimit(struct builder *builder, cJSON *array, const char *name, uint64_t value)
{
    cJSON *item = cJSON_CreateObject();

    if (!cJSON_AddItemToArray(array, item)) {
        builder->has_failed = true;
        return;
    }
    text(builder, item, "Name", name);
    number(builder, item, "Hard", value);
    number(builder, item, "Soft", value);
}

static void add_ulimits(struct builder *builder, cJSON *host, const struct sbx_limits *limits)
{
    cJSON *array = cJSON_AddArrayToObject(host, "Ulimits");

    add_ulimit(builder, array, "core", 0);
    add_ulimit(builder, array, "memlock", MEMLOCK_BYTES);
    add_ulimit(builder, array, "msgqueue", 0);
    add_ulimit(builder, array, "nice", 0);
    add_ulimit(builder, array, "rtprio", 0);
    add_ulimit(builder, array, "sigpending", SBX_BOX_SIGNALS);
    add_ulimit(builder, array, "stack", limits->value[SBX_LIMIT_STACK]);
    add_ulimit(builder, array, "fsize", limits->value[SBX_LIMIT_FILE_SIZE]);
    add_ulimit(builder, array, "nofile", limits->value[SBX_LIMIT_OPEN_FILES]);
}

static void add_places(struct builder *builder, cJSON *host, const struct sbx_container_plan *plan,
                       const struct sbx_limits *limits)
{
    struct sbx_container_shares bytes =
        sbx_container_share(limits->value[SBX_LIMIT_WORKSPACE_BYTES]);
    struct sbx_container_shares inodes =
        sbx_container_share(limits->value[SBX_LIMIT_WORKSPACE_INODES]);
    cJSON *places = object(builder, host, "Tmpfs");
    int owner = has(plan, SBX_CONTROL_USER) ? 1000 : 0;

    flag(builder, host, "ReadonlyRootfs", has(plan, SBX_CONTROL_ROOTFS));
    text(builder, host, "IpcMode", has(plan, SBX_CONTROL_IPC) ? "private" : "host");
    if (!has(plan, SBX_CONTROL_TMPFS)) {
        tmpfs(builder, places, "/workspace", "rw,exec,mode=0755,uid=%d,gid=%d", owner, owner);
        tmpfs(builder, places, "/tmp", "rw,exec,mode=1777");
        return;
    }
    tmpfs(builder, places, "/workspace",
          "rw,exec,nosuid,nodev,size=%" PRIu64 ",nr_inodes=%" PRIu64 ",mode=0755,uid=%d,gid=%d",
          bytes.workspace, inodes.workspace, owner, owner);
    tmpfs(builder, places, "/tmp",
          "rw,noexec,nosuid,nodev,size=%" PRIu64 ",nr_inodes=%" PRIu64 ",mode=1777", bytes.tmp,
          inodes.tmp);
    /* In place of the engine's own, for which it knows no inode count. Where the IPC is the host's,
     * so is the folder. */
    if (has(plan, SBX_CONTROL_IPC))
        tmpfs(builder, places, "/dev/shm",
              "rw,noexec,nosuid,nodev,size=%" PRIu64 ",nr_inodes=%" PRIu64 ",mode=1777", bytes.shm,
              inodes.shm);
}

static void add_resources(struct builder *builder, cJSON *host,
                          const struct sbx_container_plan *plan, const struct sbx_limits *limits)
{
    uint64_t page = 4096;
    uint64_t memory = limits->value[SBX_LIMIT_MEMORY] / page * page; /* what the kernel keeps */
    uint64_t quota_us;
    uint64_t period_us;

    sbx_cgroup_bandwidth(limits->value[SBX_LIMIT_CPU_MILLICORES], &quota_us, &period_us);
    if (has(plan, SBX_CONTROL_MEMORY))
        number(builder, host, "Memory", memory);
    if (has(plan, SBX_CONTROL_MEMORY) && has(plan, SBX_CONTROL_SWAP))
        number(builder, host, "MemorySwap", memory); /* of both together: no swap */
    if (has(plan, SBX_CONTROL_CPU)) {
        number(builder, host, "CpuPeriod", period_us);
        number(builder, host, "CpuQuota", quota_us);
    }
    /* One more for sandbox-init, which is no process of the program. */
    if (has(plan, SBX_CONTROL_PIDS))
        number(builder, host, "PidsLimit", limits->value[SBX_LIMIT_PROCESSES] + 1);
    number(builder, host, "OomScoreAdj", OOM_SCORE);
    if (has(plan, SBX_CONTROL_RLIMITS))
        add_ulimits(builder, host, limits);
}

static void add_options(struct builder *builder, cJSON *host, const struct sbx_container_plan *plan)
{
    /* The profile lets nobody change the user, which an init with privileges does. */
    bool has_profile = has(plan, SBX_CONTROL_SECCOMP) && has_privilege_drop(plan);
    CR_AUTO_BUF struct cr_buf seccomp;
    const char *options[4] = {NULL};
    size_t count = 0;

    cr_buf_init(&seccomp, 64U << 10);
    if (cr_buf_printf(&seccomp, "seccomp=%s", has_profile ? plan->seccomp : "unconfined") < 0)
        builder->has_failed = true;
    if (has(plan, SBX_CONTROL_NO_NEW_PRIVS))
        options[count++] = "no-new-privileges";
    options[count++] = cr_buf_str(&seccomp);
    if (!has(plan, SBX_CONTROL_IPC))
        options[count++] = "label=disable"; /* which the engine adds by itself then */
    list(builder, host, "SecurityOpt", options);
}

/* Without a name server of its own the container gets a copy of the host's resolv.conf. */
static void add_network(struct builder *builder, cJSON *host, const struct sbx_container_plan *plan)
{
    static const char *const nobody[] = {"127.0.0.1", NULL};
    static const char *const nowhere[] = {".", NULL};

    text(builder, host, "NetworkMode", has(plan, SBX_CONTROL_NETWORK) ? "none" : "host");
    list(builder, host, "Dns", nobody);
    list(builder, host, "DnsSearch", nowhere);
}

static void add_security(struct builder *builder, cJSON *host,
                         const struct sbx_container_plan *plan)
{
    static const char *const all[] = {"ALL", NULL};
    static const char *const filter[] = {"SYS_ADMIN", NULL}; /* sets one without no_new_privs */

    add_options(builder, host, plan);
    if (has_privilege_drop(plan))
        list(builder, host, "CapDrop", all);
    if (!has(plan, SBX_CONTROL_NO_NEW_PRIVS))
        list(builder, host, "CapAdd", filter);
    flag(builder, host, "Privileged", false);
    text(builder, host, "CgroupnsMode", "private");
}

static void add_covers(struct builder *builder, cJSON *host, const struct sbx_container_plan *plan)
{
    static const char *const none[] = {NULL};
    const bool is_weak = !has(plan, SBX_CONTROL_PROC);

    list(builder, host, "MaskedPaths", is_weak ? none : sbx_covered_paths(plan->is_inside));
    list(builder, host, "ReadonlyPaths", is_weak ? none : sbx_read_only_paths);
}

/* What is left out when the control of /dev is: a device too many. */
static void add_weaknesses(struct builder *builder, cJSON *host,
                           const struct sbx_container_plan *plan)
{
    cJSON *device;

    if (has(plan, SBX_CONTROL_DEV))
        return;
    device = cJSON_CreateObject();
    if (!cJSON_AddItemToArray(cJSON_AddArrayToObject(host, "Devices"), device)) {
        builder->has_failed = true;
        return;
    }
    text(builder, device, "PathOnHost", "/dev/kmsg");
    text(builder, device, "PathInContainer", "/dev/kmsg");
    text(builder, device, "CgroupPermissions", "r");
}

static cJSON *make_host_config(const struct sbx_container_plan *plan,
                               const struct sbx_limits *limits)
{
    struct builder builder = {false};
    cJSON *host = cJSON_CreateObject();
    cJSON *log;

    if (!host)
        return NULL;
    add_security(&builder, host, plan);
    add_network(&builder, host, plan);
    add_resources(&builder, host, plan, limits);
    add_places(&builder, host, plan, limits);
    add_covers(&builder, host, plan);
    add_weaknesses(&builder, host, plan);
    log = object(&builder, host, "LogConfig");
    text(&builder, log, "Type", "none");
    flag(&builder, host, "Init", false);
    /* A second net below our own removal; but what is gone cannot be asked how it ended. */
    flag(&builder, host, "AutoRemove", !plan->is_inside);
    if (plan->runtime)
        text(&builder, host, "Runtime", plan->runtime);
    if (builder.has_failed) {
        cJSON_Delete(host);
        return NULL;
    }
    return host;
}

/* What the engine reports back under "Config" with the same names. */
static cJSON *make_config(const struct sbx_container_plan *plan)
{
    const char *const entry[] = {"/sbin/sandbox-init",
                                 plan->is_inside ? SBX_STREAM_INSIDE_ARGUMENT : SBX_STREAM_ARGUMENT,
                                 NULL};
    struct builder builder = {false};
    cJSON *config = cJSON_CreateObject();

    if (!config)
        return NULL;
    text(&builder, config, "Image", plan->image);
    text(&builder, config, "User",
         has_privilege_drop(plan) && has(plan, SBX_CONTROL_USER) ? USER : ROOT_USER);
    list(&builder, config, "Entrypoint", entry);
    text(&builder, config, "WorkingDir", "/workspace");
    text(&builder, config, "Hostname", "sandbox");
    flag(&builder, config, "Tty", false);
    flag(&builder, config, "OpenStdin", true);
    flag(&builder, config, "StdinOnce", true);
    flag(&builder, config, "AttachStdin", true);
    flag(&builder, config, "AttachStdout", true);
    flag(&builder, config, "AttachStderr", true);
    if (has(plan, SBX_CONTROL_NETWORK))
        flag(&builder, config, "NetworkDisabled", true);
    text(&builder, object(&builder, config, "Labels"), SBX_CONTAINER_LABEL, plan->instance);
    if (builder.has_failed) {
        cJSON_Delete(config);
        return NULL;
    }
    return config;
}

int sbx_container_body(const struct sbx_container_plan *plan, const struct sbx_limits *limits,
                       struct cr_buf *ret_json, struct cr_err *err)
{
    CR_AUTO_JSON cJSON *body = make_config(plan);
    CR_AUTO_FREE char *printed = NULL;
    cJSON *host = body ? make_host_config(plan, limits) : NULL;

    if (host && cJSON_AddItemToObject(body, "HostConfig", host))
        printed = cJSON_PrintUnformatted(body);
    if (!printed || cr_buf_add_str(ret_json, printed) < 0)
        return cr_err_set(err, ENOMEM, "out of memory for the description of a container");
    return 0;
}

/* ---- reading back ---- */

/*
 * Finds what is not as wanted. `seen` may have more. Writes the path of the
 * first difference; the trees are shallow: four levels.
 */
static bool differs(const cJSON *wanted, const cJSON *seen, char *path, size_t size)
{
    size_t used = strlen(path);
    int index = 0;

    if (!seen || (wanted->type & 0xff) != (seen->type & 0xff))
        return true;
    if (cJSON_IsNumber(wanted))
        return fabs(wanted->valuedouble - seen->valuedouble) >= 1;
    if (cJSON_IsString(wanted))
        return strcmp(wanted->valuestring, seen->valuestring) != 0;
    if (cJSON_IsArray(wanted) && cJSON_GetArraySize(wanted) != cJSON_GetArraySize(seen))
        return true;
    for (const cJSON *item = wanted->child; item; item = item->next, index++) {
        const cJSON *other = item->string ? cJSON_GetObjectItemCaseSensitive(seen, item->string)
                                          : cJSON_GetArrayItem(seen, index);

        if (item->string)
            (void)snprintf(path + used, size - used, ".%s", item->string);
        if (differs(item, other, path, size))
            return true;
        path[used] = '\0';
    }
    return false;
}

static int compare(const cJSON *wanted, const cJSON *answer, const char *key, struct cr_err *err)
{
    char path[PATH_MAX_JSON];

    if (!wanted)
        return cr_err_set(err, ENOMEM, "out of memory for the description of a container");
    (void)snprintf(path, sizeof(path), "%s", key);
    if (differs(wanted, cJSON_GetObjectItemCaseSensitive(answer, key), path, sizeof(path)))
        return cr_err_set(err, EIO, "the docker engine did not take over '%s'", path);
    return 0;
}

static pid_t get_pid(const cJSON *answer)
{
    const cJSON *state = cJSON_GetObjectItemCaseSensitive(answer, "State");
    const cJSON *pid = cJSON_GetObjectItemCaseSensitive(state, "Pid");

    return cJSON_IsNumber(pid) && pid->valuedouble > 1 && pid->valuedouble < INT_MAX
               ? (pid_t)pid->valuedouble
               : 0;
}

int sbx_container_check(const struct sbx_container_plan *plan, const struct sbx_limits *limits,
                        const char *inspected, pid_t *ret_pid, struct cr_err *err)
{
    CR_AUTO_JSON cJSON *answer = cJSON_Parse(inspected);
    CR_AUTO_JSON cJSON *config = make_config(plan);
    CR_AUTO_JSON cJSON *host = make_host_config(plan, limits);
    int r;

    if (!answer)
        return cr_err_set(err, EPROTO, "the docker engine does not describe the container");
    if (config)
        cJSON_DeleteItemFromObject(config, "NetworkDisabled"); /* newer engines leave it out */
    r = compare(config, answer, "Config", err);
    if (r == 0)
        r = compare(host, answer, "HostConfig", err);
    if (r == 0)
        *ret_pid = get_pid(answer);
    return r;
}

/* "2026-01-31T23:59:59.123456789Z": seconds since 1970, or -1. */
static int64_t read_time(const char *text)
{
    struct tm time = {0};
    const char *rest = text ? strptime(text, "%Y-%m-%dT%H:%M:%S", &time) : NULL;

    if (!rest)
        return -1;
    if (*rest == '.')
        rest += 1 + strspn(rest + 1, "0123456789");
    return strcmp(rest, "Z") == 0 ? timegm(&time) : -1;
}

int sbx_container_read_end(const char *inspected, struct sbx_container_end *ret_end)
{
    CR_AUTO_JSON cJSON *answer = cJSON_Parse(inspected);
    const cJSON *state = cJSON_GetObjectItemCaseSensitive(answer, "State");
    const cJSON *is_oom = cJSON_GetObjectItemCaseSensitive(state, "OOMKilled");
    const cJSON *finish = cJSON_GetObjectItemCaseSensitive(state, "FinishedAt");
    int64_t finish_s = read_time(cJSON_GetStringValue(finish));

    if (!cJSON_IsBool(is_oom) || finish_s < 0)
        return -EPROTO;
    *ret_end = (struct sbx_container_end){.is_oom = cJSON_IsTrue(is_oom), .finish_s = finish_s};
    return 0;
}

int sbx_container_oom_path(const char *id, int64_t finish_s, char *ret_path, size_t size)
{
    /* {"container":["…"],"event":["oom"]} */
    int length = snprintf(ret_path, size,
                          "/events?since=0&until=%" PRId64 "&filters=%%7B%%22container%%22%%3A"
                          "%%5B%%22%s%%22%%5D%%2C%%22event%%22%%3A%%5B%%22oom%%22%%5D%%7D",
                          finish_s + OOM_EVENT_S, id);

    return length < 0 || (size_t)length >= size ? -ENAMETOOLONG : 0;
}

/* One object behind the other; only what was asked for, so that the first one tells. */
bool sbx_container_has_oom(const char *events)
{
    CR_AUTO_JSON cJSON *first = cJSON_Parse(events);
    const char *action = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(first, "Action"));

    return action && strcmp(action, "oom") == 0;
}

int sbx_container_id(const char *answer, char ret_id[SBX_CONTAINER_ID_SIZE])
{
    CR_AUTO_JSON cJSON *json = cJSON_Parse(answer);
    const char *id = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(json, "Id"));

    if (!id || strlen(id) != SBX_CONTAINER_ID_SIZE - 1 ||
        strspn(id, "0123456789abcdef") != SBX_CONTAINER_ID_SIZE - 1)
        return -EPROTO;
    memcpy(ret_id, id, SBX_CONTAINER_ID_SIZE);
    return 0;
}
