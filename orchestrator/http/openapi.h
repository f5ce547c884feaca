/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "rpc/comments.h"

struct cr_buf;

/*
 * Appends the description of the REST interface, OpenAPI 3.1 as JSON: paths
 * from the table of routes, schemas from the descriptors of the messages.
 * Pure. Returns 0, or as cr_buf_add().
 */
int agt_openapi_write(const char *version, const struct rpc_comments *comments, struct cr_buf *buf);
