/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "sandboxd/front/request.h"

struct cr_buf;
struct cr_err;

/*
 * Packs argv, environment, files and the list of files to collect of a
 * checked request into `buf`, which this initialises. The report of the
 * runtime, when it has one, is the last file to collect. The compile stage has
 * the argv and the environment of its runtime alone, and collects what it
 * leaves; the program behind it has the files, but not the code.
 * Returns 0, -ENOSPC when it is more than SBX_PAYLOAD_MAX, or another -errno.
 */
int sbx_payload_build(const Crisol__Sandbox__V1__ExecuteRequest *message,
                      const struct sbx_request *request, struct cr_buf *buf, struct cr_err *err);

/* Largest of all that a compile stage leaves, together. */
#define SBX_COMPILED_BYTES_MAX (7U << 20)

/* Largest report that is collected. */
#define SBX_REPORT_BYTES_MAX (2U << 20)
