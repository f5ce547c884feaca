/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/front/artifact_calls.h"

#include "common/buf.h"
#include "common/clock.h"
#include "crisol/sandbox/v1/sandbox.pb-c.h"
#include "rpc/server.h"
#include "rpc/status.h"
#include "sandboxd/front/artifacts.h"
#include "sandboxd/front/service.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK_MAX (64U << 10)
/* Half of an artifact is memory too: so many at one time, of one caller and of all. */
#define UPLOADS_CALLER_MAX 4U
#define UPLOADS_MAX 32U
#define RETRY_MS 1000

/* A WriteArtifact call; the completion queue thread's. */
struct upload {
    struct sbx_upload_entry entry; /* first: in the list of the service */
    struct sbx_service *service;
    char caller[64];
    struct cr_buf bytes;
};

static void refuse(struct rpc_call *call, enum rpc_code code, const char *reason, const char *text)
{
    struct rpc_status status = RPC_STATUS_INIT;

    rpc_status_set(&status, code, "%s", text);
    (void)snprintf(status.reason, sizeof(status.reason), "%s", reason);
    status.retry_after_ms = code == RPC_RESOURCE_EXHAUSTED ? RETRY_MS : 0;
    rpc_call_finish(call, &status, NULL);
}

static bool is_too_many(const struct sbx_service *service, const char *caller)
{
    uint32_t all = 0;
    uint32_t own = 0;

    for (const struct sbx_upload_entry *at = service->uploads; at; at = at->next) {
        all++;
        own += strcmp(((const struct upload *)(const void *)at)->caller, caller) == 0;
    }
    return all >= UPLOADS_MAX || own >= UPLOADS_CALLER_MAX;
}

void sbx_artifact_start(struct rpc_call *call)
{
    struct sbx_service *service = rpc_call_context(call);
    struct upload *upload = calloc(1, sizeof(*upload));

    if (!upload) {
        refuse(call, RPC_RESOURCE_EXHAUSTED, "", "the service is out of memory; try again later");
        return;
    }
    (void)snprintf(upload->caller, sizeof(upload->caller), "%s", rpc_call_peer(call)->caller);
    if (is_too_many(service, upload->caller)) {
        free(upload);
        refuse(call, RPC_RESOURCE_EXHAUSTED, "UPLOADS",
               "too many artifacts are being written at one time; try again later");
        return;
    }
    upload->service = service;
    cr_buf_init(&upload->bytes, SBX_ARTIFACT_BYTES_MAX);
    upload->entry.next = service->uploads;
    service->uploads = &upload->entry;
    rpc_call_set_user(call, upload);
    rpc_call_read(call);
}

void sbx_artifact_message(struct rpc_call *call, const ProtobufCMessage *base)
{
    const Crisol__Sandbox__V1__WriteArtifactRequest *message =
        (const Crisol__Sandbox__V1__WriteArtifactRequest *)(const void *)base;
    struct upload *upload = rpc_call_user(call);
    struct rpc_status status = RPC_STATUS_INIT;
    int r;

    if (!upload)
        return;
    if (message->data.len > CHUNK_MAX) {
        rpc_status_add_violation(&status, "data", "%zu bytes are more than the maximum of %u",
                                 message->data.len, CHUNK_MAX);
        rpc_call_finish(call, &status, NULL);
        return;
    }
    r = cr_buf_add(&upload->bytes, message->data.data, message->data.len);
    if (r == -ENOSPC)
        refuse(call, RPC_OUT_OF_RANGE, "ARTIFACT_TOO_LARGE", "an artifact has at most 8 MiB");
    else if (r < 0)
        refuse(call, RPC_RESOURCE_EXHAUSTED, "", "the service is out of memory; try again later");
    else
        rpc_call_read(call);
}

void sbx_artifact_half_close(struct rpc_call *call)
{
    Crisol__Sandbox__V1__WriteArtifactResponse response =
        CRISOL__SANDBOX__V1__WRITE_ARTIFACT_RESPONSE__INIT;
    const struct upload *upload = rpc_call_user(call);
    char digest[SBX_DIGEST_SIZE];
    int r;

    if (!upload)
        return;
    r = sbx_artifacts_put(&upload->service->artifacts, upload->caller, upload->bytes.data,
                          upload->bytes.size, cr_clock_mono_ns(), digest);
    if (r == -EDQUOT)
        refuse(call, RPC_RESOURCE_EXHAUSTED, "ARTIFACT_QUOTA",
               "you have stored 64 MiB or 256 artifacts: remove some with DeleteArtifact");
    else if (r == -ENOSPC)
        refuse(call, RPC_RESOURCE_EXHAUSTED, "ARTIFACTS_FULL",
               "all callers together have stored as much as there is room for; try again later");
    else if (r < 0)
        refuse(call, RPC_RESOURCE_EXHAUSTED, "", "the service is out of memory; try again later");
    if (r < 0)
        return;
    response.digest = digest;
    response.size_bytes = upload->bytes.size;
    rpc_call_finish(call, NULL, &response.base);
}

void sbx_artifact_free(struct rpc_call *call)
{
    struct upload *upload = rpc_call_user(call);
    struct sbx_upload_entry **slot;

    if (!upload)
        return;
    slot = &upload->service->uploads;
    while (*slot != &upload->entry)
        slot = &(*slot)->next;
    *slot = upload->entry.next;
    cr_buf_done(&upload->bytes);
    free(upload);
}

/* ---- what is there ---- */

struct listing {
    Crisol__Sandbox__V1__Artifact items[SBX_ARTIFACTS_CALLER_COUNT];
    Crisol__Sandbox__V1__Artifact *list[SBX_ARTIFACTS_CALLER_COUNT];
};

static int is_used_later(const void *left, const void *right)
{
    const Crisol__Sandbox__V1__Artifact *const *a = left;
    const Crisol__Sandbox__V1__Artifact *const *b = right;

    return ((*a)->remaining_ms < (*b)->remaining_ms) - ((*a)->remaining_ms > (*b)->remaining_ms);
}

static void fill(struct listing *listing, struct sbx_artifacts *artifacts, const char *caller,
                 Crisol__Sandbox__V1__ListArtifactsResponse *response)
{
    const int64_t now_ns = cr_clock_mono_ns();

    sbx_artifacts_sweep(artifacts, now_ns);
    for (struct sbx_artifact *at = artifacts->first; at; at = at->next) {
        Crisol__Sandbox__V1__Artifact *item = &listing->items[response->n_artifacts];

        if (strcmp(at->caller, caller) != 0 || response->n_artifacts == SBX_ARTIFACTS_CALLER_COUNT)
            continue;
        crisol__sandbox__v1__artifact__init(item);
        item->digest = at->digest;
        item->size_bytes = at->size;
        item->remaining_ms =
            (uint32_t)(SBX_ARTIFACT_LIFE_MS - (now_ns - at->used_ns) / CR_NS_PER_MS);
        response->total_bytes += at->size;
        listing->list[response->n_artifacts++] = item;
    }
    qsort((void *)listing->list, response->n_artifacts, sizeof(void *), is_used_later);
    response->artifacts = listing->list;
}

void sbx_artifact_list(struct rpc_call *call, const ProtobufCMessage *message)
{
    struct sbx_service *service = rpc_call_context(call);
    Crisol__Sandbox__V1__ListArtifactsResponse response =
        CRISOL__SANDBOX__V1__LIST_ARTIFACTS_RESPONSE__INIT;
    struct listing *listing = malloc(sizeof(*listing));

    (void)message;
    if (!listing) {
        refuse(call, RPC_RESOURCE_EXHAUSTED, "", "the service is out of memory; try again later");
        return;
    }
    fill(listing, &service->artifacts, rpc_call_peer(call)->caller, &response);
    rpc_call_finish(call, NULL, &response.base);
    free(listing);
}

void sbx_artifact_delete(struct rpc_call *call, const ProtobufCMessage *base)
{
    const Crisol__Sandbox__V1__DeleteArtifactRequest *message =
        (const Crisol__Sandbox__V1__DeleteArtifactRequest *)(const void *)base;
    struct sbx_service *service = rpc_call_context(call);
    Crisol__Sandbox__V1__DeleteArtifactResponse response =
        CRISOL__SANDBOX__V1__DELETE_ARTIFACT_RESPONSE__INIT;

    response.found =
        sbx_artifacts_drop(&service->artifacts, rpc_call_peer(call)->caller, message->digest);
    rpc_call_finish(call, NULL, &response.base);
}
