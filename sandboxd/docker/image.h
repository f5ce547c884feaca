/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct cr_err;
struct sbx_engine;

/* Which image the containers are made of. Borrowed. */
struct sbx_image_plan {
    const char *image;     /* a finished one; NULL or "": built from `base` */
    const char *base;      /* for Dockerfile.sandbox */
    bool may_pull;         /* what is missing */
    const char *init_path; /* sandbox-init; NULL: beside our own binary, as crisol-template.so */
};

#define SBX_IMAGE_NAME_MAX 256

/*
 * Makes sure that the image is there and holds this build's sandbox-init and
 * crisol-template.so: present, pulled, or built on first use. Waits, minutes
 * when it has to build. The error says which of these failed and what to do.
 */
int sbx_image_ensure(struct sbx_engine *engine, const struct sbx_image_plan *plan,
                     char ret_image[SBX_IMAGE_NAME_MAX], struct cr_err *err);

/*
 * Looks without changing anything: 0 when sbx_image_ensure() would find or
 * could make the image without a pull, 1 when it would pull, or -errno with
 * what is missing.
 */
int sbx_image_check(struct sbx_engine *engine, const struct sbx_image_plan *plan,
                    struct cr_err *err);

/*
 * Removes images of ours that no container uses and nobody needs: that of the
 * plan (built or finished) stays, and those of the root file systems that are
 * registered in the folder `roots` (NULL: none) with this build's sandbox-init.
 * Returns how many, or -errno.
 */
int sbx_image_remove_stale(struct sbx_engine *engine, const struct sbx_image_plan *plan,
                           const char *roots, struct cr_err *err);
