/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

struct cr_err;

/*
 * Reads a token file into a sealed memfd, so that the front gets it without a
 * path and without an argument. The file must be regular and closed to group
 * and others. Returns the fd, or -errno.
 */
int sbx_token_open(const char *path, struct cr_err *err);
