/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "sandboxd/docker/image.h"

#include <stdint.h>

struct cr_err;
struct sbx_engine;

/* A root file system that `sandboxd runtime build` registered. Borrowed. */
struct sbx_image_root {
    const char *digest;    /* sha256 as 64 hexadecimal digits */
    const char *folder;    /* its path */
    const char *init_path; /* as of struct sbx_image_plan */
};

/*
 * Makes sure that the engine has an image of it, with this build's sandbox-init
 * on top: what is missing is handed to it, which takes seconds for each hundred
 * MiB, and nothing is fetched. The folder is locked meanwhile as by a sandboxd
 * that uses it, and is not needed any more behind that. Waits.
 */
int sbx_image_root_ensure(struct sbx_engine *engine, const struct sbx_image_root *root,
                          char ret_image[SBX_IMAGE_NAME_MAX], struct cr_err *err);

/*
 * Which of the runtimes `wanted` (bits of the runtime table) an image has: all
 * that their files name as needed. Looks at a container with the label of
 * `instance` that is never started. Waits.
 */
int sbx_image_find_runtimes(struct sbx_engine *engine, const char *image, const char *instance,
                            uint32_t wanted, uint32_t *ret_found, struct cr_err *err);
