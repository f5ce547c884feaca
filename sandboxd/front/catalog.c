/* SPDX-License-Identifier: Apache-2.0 */
#include "common/config.h"
#include "common/unconst.h"
#include "crisol/sandbox/v1/sandbox.pb-c.h"
#include "rpc/server.h"
#include "rpc/status.h"
#include "sandboxd/front/backend.h"
#include "sandboxd/front/digest.h"
#include "sandboxd/front/limits.h"
#include "sandboxd/front/policy.h"
#include "sandboxd/front/service.h"
#include "sandboxd/runtimes/table.h"

#include <stdio.h>
#include <string.h>

#include <sys/utsname.h>

#define HOST_ENTRIES 3

/* What ListRuntimes tells about one runtime. */
struct runtime_row {
    Crisol__Sandbox__V1__Runtime message;
    Crisol__Sandbox__V1__Limits limits;
    Crisol__Sandbox__V1__Limits compile_limits;
    char digest[SBX_DIGEST_SIZE];
    char version[SBX_VERSION_TEXT_MAX];
};

static size_t count_strings(const char *const *list)
{
    size_t count = 0;

    while (list[count])
        count++;
    return count;
}

static void fill_runtime(struct runtime_row *row, const struct sbx_runtime *runtime,
                         const struct sbx_limits *maximum, Crisol__Sandbox__V1__Backend *backend)
{
    Crisol__Sandbox__V1__Runtime *message = &row->message;
    struct sbx_limits defaults;

    crisol__sandbox__v1__runtime__init(message);
    message->name = cr_unconst(runtime->name); /* protobuf-c knows no const */
    message->description = cr_unconst(runtime->description);
    message->version = row->version;
    message->n_argv = count_strings(runtime->argv);
    message->argv = cr_unconst(runtime->argv);
    if (runtime->entry_file)
        message->entry_file = cr_unconst(runtime->entry_file);
    crisol__sandbox__v1__limits__init(&row->limits);
    sbx_limits_default(maximum, runtime, &defaults);
    sbx_limits_write(&defaults, &row->limits);
    message->default_limits = &row->limits;
    if (runtime->compile[0]) {
        crisol__sandbox__v1__limits__init(&row->compile_limits);
        sbx_limits_default_compile(maximum, runtime, &defaults);
        sbx_limits_write(&defaults, &row->compile_limits);
        message->default_compile_limits = &row->compile_limits;
    }
    sbx_digest_runtime(runtime, row->digest);
    message->digest = row->digest;
    message->rootfs_digest = cr_unconst(runtime->root);
    message->n_compile_argv = count_strings(runtime->compile);
    message->compile_argv = cr_unconst(runtime->compile);
    message->n_backends = 1;
    message->backends = backend;
    message->has_test_report = runtime->report_file != NULL;
    message->keeps_state = runtime->cells != NULL;
}

static bool get_hello(struct rpc_call *call, struct sbx_msg_hello *ret_hello)
{
    struct sbx_service *service = rpc_call_context(call);
    struct rpc_status status = RPC_STATUS_INIT;

    if (sbx_backend_hello(service->backend, ret_hello))
        return true;
    rpc_status_set(&status, RPC_UNAVAILABLE,
                   "the sandbox backend is not running; it is being started");
    status.retry_after_ms = 1000;
    (void)snprintf(status.reason, sizeof(status.reason), "NO_BACKEND");
    rpc_call_finish(call, &status, NULL);
    return false;
}

void sbx_service_list_runtimes(struct rpc_call *call)
{
    struct sbx_service *service = rpc_call_context(call);
    Crisol__Sandbox__V1__ListRuntimesResponse response =
        CRISOL__SANDBOX__V1__LIST_RUNTIMES_RESPONSE__INIT;
    Crisol__Sandbox__V1__Runtime *list[SBX_RUNTIMES_MAX];
    struct runtime_row rows[SBX_RUNTIMES_MAX] = {{.version = ""}};
    Crisol__Sandbox__V1__Backend backend;
    struct sbx_msg_hello hello;
    size_t count;
    const struct sbx_runtime *runtimes = sbx_runtimes(&count);

    if (!get_hello(call, &hello))
        return;
    backend = (Crisol__Sandbox__V1__Backend)hello.backend;
    (void)pthread_mutex_lock(&service->lock);
    for (size_t i = 0; i < count; i++) {
        if (!(hello.runtimes & (UINT32_C(1) << i)))
            continue;
        (void)snprintf(rows[i].version, sizeof(rows[i].version), "%s", service->versions[i]);
        fill_runtime(&rows[i], &runtimes[i], &hello.maximum, &backend);
        list[response.n_runtimes++] = &rows[i].message;
    }
    (void)pthread_mutex_unlock(&service->lock);
    response.runtimes = list;
    rpc_call_finish(call, NULL, &response.base);
}

struct host_facts {
    struct utsname names;
    char cgroup[16];
    Crisol__Sandbox__V1__GetCapabilitiesResponse__HostEntry entries[HOST_ENTRIES];
    Crisol__Sandbox__V1__GetCapabilitiesResponse__HostEntry *list[HOST_ENTRIES];
};

static void fill_host(struct host_facts *host, const struct sbx_msg_hello *hello)
{
    static const char *const keys[HOST_ENTRIES] = {"architecture", "cgroup_version", "kernel"};
    char *const values[HOST_ENTRIES] = {host->names.machine, host->cgroup, host->names.release};

    (void)uname(&host->names); /* cannot fail with a valid pointer */
    (void)snprintf(host->cgroup, sizeof(host->cgroup), "%u", hello->cgroup_version);
    for (size_t i = 0; i < HOST_ENTRIES; i++) {
        crisol__sandbox__v1__get_capabilities_response__host_entry__init(&host->entries[i]);
        host->entries[i].key = cr_unconst(keys[i]);
        host->entries[i].value = values[i];
        host->list[i] = &host->entries[i];
    }
}

static void fill_pool(struct sbx_backend *backend, const struct sbx_msg_hello *hello,
                      Crisol__Sandbox__V1__Pool *pool)
{
    struct sbx_pool_counts counts;

    sbx_backend_pool(backend, &counts);
    crisol__sandbox__v1__pool__init(pool);
    pool->slots = hello->pool_slots;
    pool->ready = counts.ready;
    pool->hits = counts.hits;
    pool->misses = counts.misses;
}

/* Name and digest of each root file system that is a runtime's own. */
struct roots {
    Crisol__Sandbox__V1__GetCapabilitiesResponse__RootfsDigestsEntry entries[SBX_RUNTIMES_MAX];
    Crisol__Sandbox__V1__GetCapabilitiesResponse__RootfsDigestsEntry *list[SBX_RUNTIMES_MAX];
    size_t count;
};

static void fill_roots(struct roots *roots, const struct sbx_msg_hello *hello)
{
    size_t count;
    const struct sbx_runtime *runtimes = sbx_runtimes(&count);

    roots->count = 0;
    for (size_t i = 0; i < count; i++) {
        Crisol__Sandbox__V1__GetCapabilitiesResponse__RootfsDigestsEntry *entry =
            &roots->entries[roots->count];

        if (!runtimes[i].root[0] || !(hello->runtimes & (UINT32_C(1) << i)))
            continue;
        crisol__sandbox__v1__get_capabilities_response__rootfs_digests_entry__init(entry);
        entry->key = cr_unconst(runtimes[i].name);
        entry->value = cr_unconst(runtimes[i].root);
        roots->list[roots->count++] = entry;
    }
}

static void fill_load(struct sbx_backend *backend, Crisol__Sandbox__V1__Load *load)
{
    struct sbx_backend_load now;

    sbx_backend_get_load(backend, &now);
    crisol__sandbox__v1__load__init(load);
    load->running = now.running;
    load->waiting = now.waiting;
    load->memory_bytes = now.memory_taken;
    load->memory_maximum_bytes = now.memory_bytes;
}

void sbx_service_get_capabilities(struct rpc_call *call)
{
    const struct sbx_service *service = rpc_call_context(call);
    Crisol__Sandbox__V1__GetCapabilitiesResponse response =
        CRISOL__SANDBOX__V1__GET_CAPABILITIES_RESPONSE__INIT;
    Crisol__Sandbox__V1__Limits minimum = CRISOL__SANDBOX__V1__LIMITS__INIT;
    Crisol__Sandbox__V1__Limits maximum = CRISOL__SANDBOX__V1__LIMITS__INIT;
    Crisol__Sandbox__V1__Limits defaults = CRISOL__SANDBOX__V1__LIMITS__INIT;
    struct sbx_limits default_limits;
    struct sbx_controls controls;
    struct sbx_msg_hello hello;
    struct host_facts host = {.cgroup = ""};
    struct roots roots;
    Crisol__Sandbox__V1__Pool pool;
    Crisol__Sandbox__V1__Load load;

    if (!get_hello(call, &hello))
        return;
    sbx_limits_default(&hello.maximum, NULL, &default_limits);
    sbx_limits_write(&sbx_minimum_limits, &minimum);
    sbx_limits_write(&hello.maximum, &maximum);
    sbx_limits_write(&default_limits, &defaults);
    sbx_controls_fill(&controls, &hello, &default_limits, NULL);
    fill_host(&host, &hello);
    response.version = cr_unconst(CR_VERSION);
    response.backend = (Crisol__Sandbox__V1__Backend)hello.backend;
    response.n_controls = SBX_CONTROL_COUNT;
    response.controls = controls.list;
    response.minimum_limits = &minimum;
    response.maximum_limits = &maximum;
    response.default_limits = &defaults;
    response.slots = hello.slots;
    response.queue_length = (uint32_t)sbx_backend_queue_length(service->backend);
    fill_pool(service->backend, &hello, &pool);
    response.pool = &pool;
    fill_roots(&roots, &hello);
    response.n_rootfs_digests = roots.count;
    response.rootfs_digests = roots.list;
    fill_load(service->backend, &load);
    response.load = &load;
    response.sandboxes = hello.sessions;
    response.maximum_sandbox_life_ms = hello.session_life_ms;
    response.n_host = HOST_ENTRIES;
    response.host = host.list;
    rpc_call_finish(call, NULL, &response.base);
}
