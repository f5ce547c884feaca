/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "crisol/sandbox/v1/sandbox.pb-c.h"
#include "sandboxd/front/digest.h"
#include "sandboxd/wire/msg.h"

#include <stdbool.h>
#include <stdint.h>

struct sbx_request;
struct sbx_runtime;

#define SBX_CONTROL_DETAIL_MAX 128

/* The controls of the table as messages. The lists point into this struct: it must not be moved. */
struct sbx_controls {
    Crisol__Sandbox__V1__Control *list[SBX_CONTROL_COUNT];
    Crisol__Sandbox__V1__Control items[SBX_CONTROL_COUNT];
    char details[SBX_CONTROL_COUNT][SBX_CONTROL_DETAIL_MAX];
};

/* What was in force for one run, as a message. Must not be moved either. */
struct sbx_policy {
    Crisol__Sandbox__V1__EffectivePolicy message;
    Crisol__Sandbox__V1__Limits limits;
    struct sbx_controls controls;
    char *requested[SBX_LIMIT_COUNT];
    char digest[SBX_DIGEST_SIZE];
    char runtime_digest[SBX_DIGEST_SIZE];
};

/* Every control, with the values of `limits` in the details. `runtime` is whose root file system it
 * is; NULL: the common one. */
void sbx_controls_fill(struct sbx_controls *controls, const struct sbx_msg_hello *hello,
                       const struct sbx_limits *limits, const struct sbx_runtime *runtime);

/* The texts of the last policy, which most requests ask for again. All zero at first. */
struct sbx_policy_memo {
    bool is_set;
    uint32_t runtime;
    struct sbx_limits limits;
    struct sbx_msg_hello hello;
    char details[SBX_CONTROL_COUNT][SBX_CONTROL_DETAIL_MAX];
    char digest[SBX_DIGEST_SIZE];
    char runtime_digest[SBX_DIGEST_SIZE];
};

/* Pure but for the digest. Needs no release. `memo` may be NULL, and makes no difference but time.
 */
void sbx_policy_fill(struct sbx_policy *policy, const struct sbx_request *request,
                     const struct sbx_msg_hello *hello, struct sbx_policy_memo *memo);
