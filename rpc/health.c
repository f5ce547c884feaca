/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/health.h"

#include "common/auto.h"
#include "common/log.h"
#include "grpc/health/v1/health.pb-c.h"
#include "rpc/call.h"
#include "rpc/status.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SERVICES_MAX 64
#define NAME_MAX_BYTES 256

#define SERVING GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__SERVING
#define NOT_SERVING GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__NOT_SERVING
#define SERVICE_UNKNOWN GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__SERVICE_UNKNOWN

typedef Grpc__Health__V1__HealthCheckResponse__ServingStatus serving_status;

struct entry {
    char name[NAME_MAX_BYTES];
    bool is_serving;
};

struct rpc_health {
    pthread_mutex_t lock; /* guards everything below */
    struct entry entries[SERVICES_MAX];
    size_t count;
    bool is_draining;
};

/* One Watch call. */
struct watch {
    char service[NAME_MAX_BYTES];
    serving_status sent; /* UNKNOWN: nothing yet */
};

static struct entry *find(struct rpc_health *health, const char *service)
{
    for (size_t i = 0; i < health->count; i++) {
        if (strcmp(health->entries[i].name, service) == 0)
            return &health->entries[i];
    }
    return NULL;
}

static struct entry *find_or_add(struct rpc_health *health, const char *service)
{
    struct entry *entry = find(health, service);

    if (entry || health->count == SERVICES_MAX || strlen(service) >= NAME_MAX_BYTES)
        return entry;
    entry = &health->entries[health->count++];
    (void)snprintf(entry->name, sizeof(entry->name), "%s", service);
    return entry;
}

static void add_services(struct rpc_health *health, const struct rpc_server *server)
{
    for (size_t i = 0; i < server->route_count; i++) {
        const char *name = server->routes[i].method->path + 1;
        char service[NAME_MAX_BYTES];

        if (server->routes[i].is_internal)
            continue;
        (void)snprintf(service, sizeof(service), "%.*s", (int)strcspn(name, "/"), name);
        (void)find_or_add(health, service);
    }
}

struct rpc_health *rpc_health_new(const struct rpc_server *server)
{
    struct rpc_health *health = calloc(1, sizeof(*health));

    if (!health)
        return NULL;
    (void)pthread_mutex_init(&health->lock, NULL); /* cannot fail with default attributes */
    (void)find_or_add(health, "");
    add_services(health, server);
    return health;
}

struct rpc_health *rpc_health_free(struct rpc_health *health)
{
    if (health)
        (void)pthread_mutex_destroy(&health->lock);
    free(health);
    return NULL;
}

static bool set_entry(struct rpc_health *health, const char *service, bool is_serving)
{
    struct entry *entry = health->is_draining ? NULL : find_or_add(health, service);
    bool has_changed = entry && entry->is_serving != is_serving;

    if (has_changed)
        entry->is_serving = is_serving;
    return has_changed;
}

bool rpc_health_set(struct rpc_health *health, const char *service, bool is_serving)
{
    bool has_changed;

    (void)pthread_mutex_lock(&health->lock);
    has_changed = set_entry(health, service, is_serving);
    (void)pthread_mutex_unlock(&health->lock);
    return has_changed;
}

void rpc_health_drain(struct rpc_health *health)
{
    (void)pthread_mutex_lock(&health->lock);
    health->is_draining = true;
    for (size_t i = 0; i < health->count; i++)
        health->entries[i].is_serving = false;
    (void)pthread_mutex_unlock(&health->lock);
}

static serving_status look_up(struct rpc_call *call, const char *service)
{
    struct rpc_health *health = call->server->health;
    serving_status status = SERVICE_UNKNOWN;
    const struct entry *entry;

    (void)pthread_mutex_lock(&health->lock);
    entry = find(health, service);
    if (entry)
        status = entry->is_serving ? SERVING : NOT_SERVING;
    (void)pthread_mutex_unlock(&health->lock);
    return status;
}

static const char *service_of(const ProtobufCMessage *message)
{
    return ((const Grpc__Health__V1__HealthCheckRequest *)(const void *)message)->service;
}

static void on_check(struct rpc_call *call, const ProtobufCMessage *message)
{
    Grpc__Health__V1__HealthCheckResponse response = GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__INIT;
    struct rpc_status status;

    response.status = look_up(call, service_of(message));
    if (response.status == SERVICE_UNKNOWN) {
        rpc_status_set(&status, RPC_NOT_FOUND, "unknown service");
        rpc_call_finish(call, &status, NULL);
        return;
    }
    rpc_call_finish(call, NULL, &response.base);
}

static void on_list(struct rpc_call *call, const ProtobufCMessage *message)
{
    Grpc__Health__V1__HealthListResponse__StatusesEntry rows[SERVICES_MAX];
    Grpc__Health__V1__HealthListResponse__StatusesEntry *list[SERVICES_MAX];
    Grpc__Health__V1__HealthCheckResponse values[SERVICES_MAX];
    Grpc__Health__V1__HealthListResponse response = GRPC__HEALTH__V1__HEALTH_LIST_RESPONSE__INIT;
    struct rpc_health *health = call->server->health;

    (void)message;
    response.statuses = list;
    (void)pthread_mutex_lock(&health->lock);
    for (size_t i = 0; i < health->count; i++) {
        grpc__health__v1__health_check_response__init(&values[i]);
        values[i].status = health->entries[i].is_serving ? SERVING : NOT_SERVING;
        grpc__health__v1__health_list_response__statuses_entry__init(&rows[i]);
        rows[i].key = health->entries[i].name; /* never renamed or removed */
        rows[i].value = &values[i];
        list[response.n_statuses++] = &rows[i];
    }
    (void)pthread_mutex_unlock(&health->lock);
    rpc_call_finish(call, NULL, &response.base);
}

/* Sends the state when it is news; a change while a message is on its way is seen when it left. */
static void report(struct rpc_call *call)
{
    Grpc__Health__V1__HealthCheckResponse response = GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__INIT;
    struct watch *watch = rpc_call_user(call);
    /* Before the state is looked up: a drain that begins after this wakes the call again. */
    bool is_draining = rpc_server_is_draining(call->server);
    struct rpc_status status;

    if (!watch)
        return;
    response.status = look_up(call, watch->service);
    if (response.status != watch->sent) {
        if (!rpc_call_can_send(call))
            return; /* also at the end of the service: its last word is told first */
        if (rpc_call_send(call, &response.base))
            watch->sent = response.status;
    }
    if (is_draining) {
        rpc_status_set_draining(&status);
        rpc_call_finish(call, &status, NULL);
    }
}

static void on_watch(struct rpc_call *call, const ProtobufCMessage *message)
{
    struct watch *watch = calloc(1, sizeof(*watch));
    struct rpc_status status;

    if (!watch || strlen(service_of(message)) >= sizeof(watch->service)) {
        free(watch);
        rpc_status_set(&status, RPC_RESOURCE_EXHAUSTED, "the service name is too long to watch");
        rpc_call_finish(call, &status, NULL);
        return;
    }
    (void)snprintf(watch->service, sizeof(watch->service), "%s", service_of(message));
    rpc_call_set_user(call, watch);
    report(call);
}

static void free_watch(struct rpc_call *call)
{
    free(rpc_call_user(call));
}

const struct rpc_method rpc_health_methods[] = {
    {
        .path = "/grpc.health.v1.Health/Check",
        .kind = RPC_UNARY,
        .request = &grpc__health__v1__health_check_request__descriptor,
        .response = &grpc__health__v1__health_check_response__descriptor,
        .on_message = on_check,
    },
    {
        .path = "/grpc.health.v1.Health/List",
        .kind = RPC_UNARY,
        .request = &grpc__health__v1__health_list_request__descriptor,
        .response = &grpc__health__v1__health_list_response__descriptor,
        .on_message = on_list,
    },
    {
        .path = "/grpc.health.v1.Health/Watch",
        .kind = RPC_SERVER_STREAM,
        .request = &grpc__health__v1__health_check_request__descriptor,
        .response = &grpc__health__v1__health_check_response__descriptor,
        .on_message = on_watch,
        .on_writable = report,
        .on_wake = report,
        .on_free = free_watch,
    },
    {.path = NULL},
};
