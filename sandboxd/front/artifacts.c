/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/front/artifacts.h"

#include "common/clock.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LIFE_NS (SBX_ARTIFACT_LIFE_MS * CR_NS_PER_MS)

static void drop(struct sbx_artifacts *artifacts, struct sbx_artifact **slot)
{
    struct sbx_artifact *artifact = *slot;

    *slot = artifact->next;
    artifacts->bytes -= artifact->size;
    artifacts->count--;
    free(artifact);
}

void sbx_artifacts_done(struct sbx_artifacts *artifacts)
{
    while (artifacts->first)
        drop(artifacts, &artifacts->first);
}

void sbx_artifacts_sweep(struct sbx_artifacts *artifacts, int64_t now_ns)
{
    struct sbx_artifact **slot = &artifacts->first;

    while (*slot) {
        if (now_ns - (*slot)->used_ns >= LIFE_NS)
            drop(artifacts, slot);
        else
            slot = &(*slot)->next;
    }
}

static struct sbx_artifact **find(struct sbx_artifacts *artifacts, const char *caller,
                                  const char *digest)
{
    struct sbx_artifact **slot = &artifacts->first;

    while (*slot && (strcmp((*slot)->digest, digest) != 0 || strcmp((*slot)->caller, caller) != 0))
        slot = &(*slot)->next;
    return slot;
}

/* Room for one more of that size. */
static int check_room(const struct sbx_artifacts *artifacts, const char *caller, size_t size)
{
    size_t bytes = 0;
    size_t count = 0;

    for (const struct sbx_artifact *at = artifacts->first; at; at = at->next) {
        if (strcmp(at->caller, caller) != 0)
            continue;
        bytes += at->size;
        count++;
    }
    if (bytes + size > SBX_ARTIFACTS_CALLER_BYTES || count >= SBX_ARTIFACTS_CALLER_COUNT)
        return -EDQUOT;
    if (artifacts->bytes + size > SBX_ARTIFACTS_BYTES || artifacts->count >= SBX_ARTIFACTS_COUNT)
        return -ENOSPC;
    return 0;
}

int sbx_artifacts_put(struct sbx_artifacts *artifacts, const char *caller, const void *data,
                      size_t size, int64_t now_ns, char ret_digest[SBX_DIGEST_SIZE])
{
    char digest[SBX_DIGEST_SIZE];
    struct sbx_artifact *artifact;
    int r;

    if (size > SBX_ARTIFACT_BYTES_MAX)
        return -EFBIG;
    sbx_digest(data, size, digest);
    if (!digest[0])
        return -ENOMEM;
    sbx_artifacts_sweep(artifacts, now_ns);
    if (!sbx_artifacts_get(artifacts, caller, digest, now_ns)) {
        r = check_room(artifacts, caller, size);
        if (r < 0)
            return r;
        artifact = malloc(sizeof(*artifact) + size + 1);
        if (!artifact)
            return -ENOMEM;
        *artifact =
            (struct sbx_artifact){.next = artifacts->first, .used_ns = now_ns, .size = size};
        (void)snprintf(artifact->caller, sizeof(artifact->caller), "%s", caller);
        memcpy(artifact->digest, digest, sizeof(digest));
        if (size > 0)
            memcpy(artifact->data, data, size);
        artifact->data[size] = 0;
        artifacts->first = artifact;
        artifacts->bytes += size;
        artifacts->count++;
    }
    memcpy(ret_digest, digest, sizeof(digest));
    return 0;
}

struct sbx_artifact *sbx_artifacts_get(struct sbx_artifacts *artifacts, const char *caller,
                                       const char *digest, int64_t now_ns)
{
    struct sbx_artifact *artifact = *find(artifacts, caller, digest);

    if (artifact && now_ns - artifact->used_ns >= LIFE_NS)
        return NULL; /* the next sweep takes it */
    if (artifact)
        artifact->used_ns = now_ns;
    return artifact;
}

bool sbx_artifacts_drop(struct sbx_artifacts *artifacts, const char *caller, const char *digest)
{
    struct sbx_artifact **slot = find(artifacts, caller, digest);

    if (!*slot)
        return false;
    drop(artifacts, slot);
    return true;
}

ProtobufCBinaryData sbx_artifacts_find(void *stored, const char *digest)
{
    const struct sbx_stored *whose = stored;
    struct sbx_artifact *artifact =
        sbx_artifacts_get(whose->artifacts, whose->caller, digest, whose->now_ns);

    return (ProtobufCBinaryData){.len = artifact ? artifact->size : 0,
                                 .data = artifact ? artifact->data : NULL};
}
