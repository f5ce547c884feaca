/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "sandboxd/front/digest.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <protobuf-c/protobuf-c.h>

/*
 * Contents that callers have stored, to be named by their sha256 in later
 * requests. In memory, bounded for each caller and for all; what was not used
 * for an hour goes, and all of it with the process. One caller never sees
 * another's, not even that it is there: each has a copy of its own. One thread.
 */
#define SBX_ARTIFACT_BYTES_MAX ((size_t)8 << 20) /* of one: no more would fit a run */
#define SBX_ARTIFACTS_CALLER_BYTES ((size_t)64 << 20)
#define SBX_ARTIFACTS_CALLER_COUNT 256U
#define SBX_ARTIFACTS_BYTES ((size_t)256 << 20)
#define SBX_ARTIFACTS_COUNT 2048U
#define SBX_ARTIFACT_LIFE_MS 3600000

struct sbx_artifact {
    struct sbx_artifact *next;
    char caller[64];
    char digest[SBX_DIGEST_SIZE];
    int64_t used_ns;
    size_t size;
    uint8_t data[]; /* and a NUL */
};

/* All zero is an empty one. */
struct sbx_artifacts {
    struct sbx_artifact *first;
    size_t bytes;
    size_t count;
};

void sbx_artifacts_done(struct sbx_artifacts *artifacts);

/*
 * Stores a copy for the caller, or notes that it is used when it is there.
 * Returns 0 with its digest, -EFBIG, -EDQUOT when the caller has too much
 * stored, -ENOSPC when all have, or -ENOMEM.
 */
int sbx_artifacts_put(struct sbx_artifacts *artifacts, const char *caller, const void *data,
                      size_t size, int64_t now_ns, char ret_digest[SBX_DIGEST_SIZE]);

/* The caller's own of that digest, used now; NULL: there is none. Valid until the next put or drop.
 */
struct sbx_artifact *sbx_artifacts_get(struct sbx_artifacts *artifacts, const char *caller,
                                       const char *digest, int64_t now_ns);

/* Returns whether there was one. */
bool sbx_artifacts_drop(struct sbx_artifacts *artifacts, const char *caller, const char *digest);

/* Drops what was not used for its life time. */
void sbx_artifacts_sweep(struct sbx_artifacts *artifacts, int64_t now_ns);

/* Whose are looked at, for sbx_artifacts_find(). */
struct sbx_stored {
    struct sbx_artifacts *artifacts;
    const char *caller;
    int64_t now_ns;
};

/* struct sbx_contents of a request. Empty contents have data, too. */
ProtobufCBinaryData sbx_artifacts_find(void *stored, const char *digest);
