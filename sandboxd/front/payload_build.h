/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "sandboxd/front/request.h"

struct cr_err;

/*
 * Packs argv, environment, files and the list of files to collect of a
 * checked request into a sealed memfd. The report of the runtime, when it has
 * one, is the last file to collect. *ret_fd is owned by the caller.
 * Returns 0, -ENOSPC when it is more than SBX_PAYLOAD_MAX, or another -errno.
 */
int sbx_payload_build(const Crisol__Sandbox__V1__ExecuteRequest *message,
                      const struct sbx_request *request, int *ret_fd, struct cr_err *err);

/* Largest report that is collected. */
#define SBX_REPORT_BYTES_MAX (2U << 20)
