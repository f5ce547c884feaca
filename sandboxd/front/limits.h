/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "crisol/sandbox/v1/sandbox.pb-c.h"
#include "sandboxd/wire/msg.h"

#include <stdint.h>

struct rpc_status;
struct sbx_runtime;

/*
 * Limits between the contract (crisol.sandbox.v1.Limits, 0 = default) and the
 * wire (struct sbx_limits, never 0).
 */

/*
 * Reads the limits of a request for `runtime`. `message` may be NULL:
 * everything is a default. A default never exceeds `maximum`. Bit i of *ret_requested is set
 * when limit i came from the request. Adds a violation for each limit that is
 * out of range; the results are filled in all the same.
 */
void sbx_limits_read(const Crisol__Sandbox__V1__Limits *message, const struct sbx_limits *maximum,
                     const struct sbx_runtime *runtime, struct sbx_limits *ret_limits,
                     uint32_t *ret_requested, struct rpc_status *status);

/*
 * The same for the compile stage of a runtime that has one: its own defaults,
 * and fields named "compile_limits.…"; output_bytes is refused.
 */
void sbx_limits_read_compile(const Crisol__Sandbox__V1__Limits *message,
                             const struct sbx_limits *maximum, const struct sbx_runtime *runtime,
                             struct sbx_limits *ret_limits, uint32_t *ret_requested,
                             struct rpc_status *status);

/* What the compile stage of a runtime gets when a request asks for nothing. */
void sbx_limits_default_compile(const struct sbx_limits *maximum, const struct sbx_runtime *runtime,
                                struct sbx_limits *ret_limits);

/* What a request for `runtime` (NULL: for one that says nothing of limits) gets that asks for
 * nothing. */
void sbx_limits_default(const struct sbx_limits *maximum, const struct sbx_runtime *runtime,
                        struct sbx_limits *ret_limits);

/* Fills in the fields of an initialised message. */
void sbx_limits_write(const struct sbx_limits *limits, Crisol__Sandbox__V1__Limits *message);
