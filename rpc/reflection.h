/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "rpc/server.h"

struct cr_err;

/*
 * Internal to rpc/: grpc.reflection v1 and v1alpha of one server, from the
 * descriptor set in its options. The two versions have the same bytes on the
 * wire, so one handler serves both. Only services that the server has are
 * listed, whatever else the set describes.
 */
struct rpc_reflection;

/* Ends with a row whose path is NULL. */
extern const struct rpc_method rpc_reflection_methods[];

/* Returns 0, -ENOMEM, or -EINVAL for a descriptor set that cannot be read. */
int rpc_reflection_new(const struct rpc_server *server, struct rpc_reflection **ret_reflection,
                       struct cr_err *err);
struct rpc_reflection *
rpc_reflection_free(struct rpc_reflection *reflection); /* NULL is allowed; returns NULL */
