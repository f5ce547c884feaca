/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct cr_err;

#define SBX_LAYERS_MAX 128U
#define SBX_LAYER_PATH_MAX 256U

/* Paths of the layers of an image in its archive, the lowest first. */
struct sbx_layers {
    char paths[SBX_LAYERS_MAX][SBX_LAYER_PATH_MAX];
    size_t count;
};

/*
 * Reads the manifest.json of `docker save`: the layers of its first image.
 * Pure. Returns 0, or -EPROTO when it is none, or when a path leads out of the
 * archive.
 */
int sbx_archive_parse_docker(const char *json, struct sbx_layers *ret_layers);

/* The path of the blob that an index.json of an OCI layout names first. Likewise. */
int sbx_archive_parse_index(const char *json, char ret_path[SBX_LAYER_PATH_MAX]);

/* The layers that an image manifest of OCI names. Likewise. */
int sbx_archive_parse_manifest(const char *json, struct sbx_layers *ret_layers);

/*
 * Unpacks the archive `path` into the empty folder `root` (an absolute path):
 * an image of docker or of OCI layer by layer, anything else as a tree.
 * `work`, an empty folder of the same file system, holds what is in between.
 * tar runs with the rest of the host read-only. Returns 0 or -errno.
 */
int sbx_archive_unpack(const char *path, const char *work, const char *root, int output_fd,
                       int64_t deadline_ns, struct cr_err *err);
