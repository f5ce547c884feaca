/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct cr_err;
struct sbx_room;

#define SBX_LAYERS_MAX 128U
#define SBX_LAYER_PATH_MAX 256U

/* Paths of the layers of an image in its archive, the lowest first. */
struct sbx_layers {
    char paths[SBX_LAYERS_MAX][SBX_LAYER_PATH_MAX];
    size_t count;
};

/*
 * Reads the manifest.json of `docker save`: the layers of the image that has
 * `name` among its tags (NULL: of the only one). Pure. Returns 0; -EPROTO when
 * it is none, or when a path leads out of the archive; -ENOENT when no image
 * has that name; -ENOTUNIQ when there are several and no name. The error tells
 * the names that there are.
 */
int sbx_archive_parse_docker(const char *json, const char *name, struct sbx_layers *ret_layers,
                             struct cr_err *err);

/* The path of the blob that an index.json of an OCI layout names for that image. Likewise; names
 * are annotations. */
int sbx_archive_parse_index(const char *json, const char *name, char ret_path[SBX_LAYER_PATH_MAX],
                            struct cr_err *err);

/* The layers that an image manifest of OCI names. Returns 0 or -EPROTO. */
int sbx_archive_parse_manifest(const char *json, struct sbx_layers *ret_layers);

/* What is unpacked, and where. Strings are borrowed. */
struct sbx_archive {
    const char *path;
    const char *image;           /* its name in the archive; NULL: the only one */
    const char *work;            /* empty folder of the same file system, for what is in between */
    int output_fd;               /* what tar says; borrowed */
    int64_t deadline_ns;         /* CLOCK_MONOTONIC */
    const struct sbx_room *room; /* what all of it may take */
};

/*
 * Unpacks it into the empty folder `root` (an absolute path): an image of
 * docker or of OCI layer by layer, anything else as a tree. tar runs with the
 * rest of the host read-only. Returns 0 or -errno.
 */
int sbx_archive_unpack(const struct sbx_archive *source, const char *root, struct cr_err *err);
