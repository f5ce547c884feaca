/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "common/buf.h"
#include "sandboxd/docker/image.h"

#include <stdbool.h>
#include <stddef.h>

struct cr_err;
struct sbx_engine;

/* What the parts of the images share. */

#define SBX_IMAGE_LABEL "crisol.image"     /* the digest of all that went in */
#define SBX_IMAGE_LABEL_INIT "crisol.init" /* the digest of our own parts alone */
#define SBX_IMAGE_LABEL_ROOT "crisol.root" /* of a registered runtime: the digest of its root */

#define SBX_IMAGE_LOOK_MS 10000
#define SBX_IMAGE_BUILD_MS 900000

/* image_build.c */

#define SBX_IMAGE_PARTS 2
#define SBX_IMAGE_DIGEST_SIZE 17 /* 16 hexadecimal digits and the NUL */

/* Of an image that is built on another one. */
struct sbx_image_inputs {
    const char *base;       /* borrowed */
    const char *dockerfile; /* likewise: the text */
    struct cr_buf parts[SBX_IMAGE_PARTS];
    char init_digest[SBX_IMAGE_DIGEST_SIZE];
    char image_digest[SBX_IMAGE_DIGEST_SIZE];
};

/*
 * Reads the parts of this build: sandbox-init (NULL or "": beside our own
 * binary) and crisol-template.so. sbx_image_inputs_done() is right afterwards,
 * also when this fails.
 */
int sbx_image_inputs_load(const char *init_path, const char *base, const char *dockerfile,
                          struct sbx_image_inputs *inputs, struct cr_err *err);

/* Those of Dockerfile.sandbox on plan->base; image.c. */
int sbx_image_inputs_load_plan(const struct sbx_image_plan *plan, struct sbx_image_inputs *inputs,
                               struct cr_err *err);

void sbx_image_inputs_done(struct sbx_image_inputs *inputs);

/* The tag that is built of them. */
void sbx_image_inputs_name(const struct sbx_image_inputs *inputs,
                           char ret_image[SBX_IMAGE_NAME_MAX]);

/* Has the engine build it. Waits. */
int sbx_image_build(struct sbx_engine *engine, const struct sbx_image_inputs *inputs,
                    bool with_network, struct cr_err *err);

/* Names go into URLs: only characters that need no escape there. */
int sbx_image_check_name(const char *name, struct cr_err *err);

/* *ret_init is the label, "" without one. Returns 0, -ENOENT without an error text, or -errno. */
int sbx_image_look(struct sbx_engine *engine, const char *name,
                   char ret_init[SBX_IMAGE_DIGEST_SIZE], struct cr_err *err);

/* The answer to a call that makes an image: a status of 200 says nothing, a failure is a line of
 * the stream. Returns 0 or -EIO. */
int sbx_image_judge(const char *what, const struct cr_buf *answer, long status, struct cr_err *err);
