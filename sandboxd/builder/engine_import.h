/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "sandboxd/builder/build.h"

struct cr_err;

/* Repository of the images that root file systems become; the tag is the begin of the digest. */
#define SBX_IMPORT_REPOSITORY "crisol-runtime"

/*
 * Makes an image of the root file system in the docker engine at `socket` (a
 * path), by its import: what sandboxd-docker then builds the sandboxes of this
 * runtime from. Returns 0 or -errno.
 */
int sbx_import_root(const struct sbx_build *build, const char *digest, const char *socket,
                    struct cr_err *err);
