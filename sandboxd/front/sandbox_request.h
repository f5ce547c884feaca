/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "crisol/sandbox/v1/sandbox.pb-c.h"
#include "sandboxd/front/request.h"

#include <stdint.h>

struct rpc_status;
struct sbx_msg_hello;
struct sbx_sandbox;
struct sbx_sandbox_plan;

/*
 * Requests about sandboxes that live on, by the rules that sandbox.proto
 * documents. Pure. Each returns 0, or -EINVAL with `status` filled in, as
 * sbx_request_check() does.
 */

/* What a new one is to be; its caller is the owner's to fill in. */
int sbx_sandbox_check_create(const Crisol__Sandbox__V1__CreateSandboxRequest *message,
                             const struct sbx_msg_hello *hello, struct sbx_sandbox_plan *ret_plan,
                             struct rpc_status *status);

/* As sbx_request_check(), for a program in a sandbox. Fields are named as parts of `request`. */
int sbx_request_check_in(const Crisol__Sandbox__V1__ExecuteRequest *message,
                         const struct sbx_request_rules *rules, const struct sbx_sandbox *sandbox,
                         struct sbx_request *ret_request, struct rpc_status *status);

/* The same for files in or out: only `files` or `collect` are set. Fields have their own names. */
int sbx_request_check_files(const Crisol__Sandbox__V1__ExecuteRequest *message,
                            const struct sbx_request_rules *rules,
                            const struct sbx_sandbox *sandbox, struct sbx_request *ret_request,
                            struct rpc_status *status);
